"""Every key of a pipeline file: what `headgate define` accepts, and what the reference says of it."""

from __future__ import annotations

from typing import NamedTuple


class Key(NamedTuple):
    """A key of a dataset or of a job."""

    name: str
    #: What its value is in TOML.
    type: str
    #: As it is written in TOML; empty: there is none.
    default: str
    meaning: str


DATASET = (
    Key(
        "uri",
        "text",
        '""',
        "Where the data is. Commands find it in `HEADGATE_INPUT_<NAME>_URI` or `HEADGATE_OUTPUT_<NAME>_URI`. "
        "Headgate itself does not open it.",
    ),
    Key(
        "order",
        "text",
        '"natural"',
        "How data ids are ordered, which decides what is claimed first: `natural` compares runs of digits as "
        "numbers (9 before 10), `text` compares characters.",
    ),
    Key(
        "settings",
        "table of texts",
        "{}",
        "Other connection data, in the claim's JSON. Everybody who can read the store can read it.",
    ),
    Key(
        "secrets",
        "table of texts",
        "",
        "Where each secret is read when the file is defined: `env:NAME` or `file:PATH`. Secrets are stored "
        "sealed. Without the key they stay as they are.",
    ),
    Key(
        "secret_jobs",
        "list of names",
        "",
        "The jobs that may hold the secrets; other jobs find them masked. Without the key any job that uses the "
        "dataset may, once an admin has confirmed it.",
    ),
)

JOB = (
    Key(
        "inputs",
        "list of names",
        "[]",
        "The datasets that the job reads. A chunk can be claimed when the same data id is READY in all of them. "
        "The first one's `order` decides which chunk is next.",
    ),
    Key(
        "outputs",
        "list of names",
        "[]",
        "The datasets that the job makes. A dataset has one producing job, and cannot be input and output of the "
        "same job.",
    ),
    Key(
        "environment",
        "table of texts",
        "{}",
        "Variables for the job's commands. Names begin with `PARAM_` unless the setting `job_variables` allows more.",
    ),
    Key(
        "max_attempts",
        "number",
        "3",
        "Failures after which a chunk is no longer retried until it is resubmitted; 0: no limit.",
    ),
    Key(
        "max_crashes",
        "number",
        "3",
        "Workers that may die on a chunk before it is put on hold; 0: no limit.",
    ),
    Key(
        "max_interruptions",
        "number",
        "10",
        "Workers that may be asked to stop while they work on a chunk before it is put on hold; 0: no limit.",
    ),
    Key(
        "retry_delay",
        "number",
        "0",
        "Seconds before a failed chunk is tried again, doubled with each further failure, up to 30 days.",
    ),
    Key(
        "on_failure",
        "text",
        '"rerun"',
        "`rerun`: a failed chunk is retried. `hold`: it is put on hold until an operator releases it.",
    ),
    Key(
        "stop_exit",
        "text",
        '"interrupt"',
        "What counts when a worker is asked to stop before its command has ended. `interrupt`: the chunk was "
        "interrupted, whatever the exit code. `trust`: the exit code.",
    ),
)
