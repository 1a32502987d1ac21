"""Every key of a pipeline file, as `headgate define` accepts it and the reference describes it."""

from __future__ import annotations

from typing import NamedTuple


class Key(NamedTuple):
    """A key of a dataset or of a job."""

    name: str
    #: The type of its value in TOML.
    type: str
    #: In TOML syntax; empty: no default.
    default: str
    meaning: str


DATASET = (
    Key(
        "uri",
        "text",
        '""',
        "Location of the data. Commands find it in `HEADGATE_INPUT_<NAME>_URI` or `HEADGATE_OUTPUT_<NAME>_URI`. "
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
        "Other connection data, in the claim's JSON. Everyone who can read the store can read it.",
    ),
    Key(
        "secrets",
        "table of texts",
        "",
        "The source of each secret, read when the file is defined: `env:NAME` or `file:PATH`. Secrets are stored "
        "sealed. Without this key, existing secrets are unchanged.",
    ),
    Key(
        "secret_jobs",
        "list of names",
        "",
        "The jobs that may hold the secrets; other jobs see them masked. Without the key any job that uses the "
        "dataset may, once an admin has confirmed it.",
    ),
    Key(
        "expect",
        "table",
        "",
        "Which data ids the dataset should have, and when each should be READY; see below. A chunk that is not READY "
        "in time is late.",
    ),
)

#: Of that table.
EXPECT = (
    Key(
        "every",
        "text",
        "",
        "One data id is expected for each `hour`, `day`, `week` (ISO), `month`, `quarter` or `year`.",
    ),
    Key(
        "cron",
        "text",
        "",
        "Instead of `every`: a cron expression of five fields. One data id is expected for each time that it matches; "
        "times that make the same data id count once, as the first of them. For several data ids a day, set `format`.",
    ),
    Key("ids", "list of texts", "", "Instead of `every`: these data ids, all at the same time."),
    Key(
        "at",
        "text",
        '"00:00"',
        "`every`: the time of day at which a data id is expected, on the first day of its week, month, quarter or "
        "year; of an hour, how long after its beginning. `ids`: the time of day, on the day of `from`.",
    ),
    Key(
        "zone",
        "text",
        '"UTC"',
        "The time zone of `at` and `cron`, such as `Europe/Berlin`. A time that does not exist on a day is the next "
        "one that does; of a time that exists twice the first counts.",
    ),
    Key("grace", "seconds or text", "0", "How long after that time a chunk that is not READY is late; `30m`, `2h`."),
    Key(
        "from",
        "text or date",
        "",
        "Required. The first data id that is expected, as the time that it names (`2026-01-01`), or as it is written "
        "(`2026-W01`). `ids`: the day on which they are expected.",
    ),
    Key(
        "format",
        "text",
        "",
        "The format of the data ids, of the directives below. Left out, the usual one of `every`, and `%Y-%m-%d` for "
        "`cron`. Data ids with an hour are in UTC.",
    ),
    Key(
        "id_offset",
        "seconds or text",
        "0",
        "What is added to the time at which a data id is expected, to get the time that it names: with `-1d` the data "
        "of the day before is expected each day.",
    ),
)

#: Keys of a dataset that only commands reading the file use; they are not stored.
IN_THE_FILE = (
    Key(
        "watch",
        "table",
        "",
        "Where the files that publish the dataset arrive, for `headgate watch run FILE`; see below. It is not stored.",
    ),
)
#: Of that table.
WATCH = (
    Key("folder", "text", "", "The folder in which files arrive; relative to the pipeline file's."),
    Key(
        "prefix",
        "text",
        "",
        "The prefix in a bucket under which objects arrive, `s3://bucket/folder/`, instead of `folder`. Endpoint and "
        "credentials are the usual `AWS_` variables of the watcher's process.",
    ),
    Key(
        "pattern",
        "text",
        "",
        "The pattern of file paths below the folder. A field in braces is text without a slash (`{sample}`), "
        "or, with a format, a time (`{date:%Y-%m-%d}`). Files that do not match are ignored.",
    ),
    Key(
        "id",
        "text",
        "",
        "The data id, made of the fields, such as `{sample}-{lane}` or `{date:%Y-%m}`. Without it: the pattern's only "
        "field.",
    ),
    Key(
        "ready",
        "text",
        '"stable"',
        "When a file counts. `stable`: its size and time have not changed for `settle`. `whole`: as soon as it has its "
        "name, because programs write it under another name or in another folder, and rename it (usual for buckets, "
        "whose objects are whole). `marker`: when its marker is there, and is not older than the file.",
    ),
    Key("settle", "seconds or text", "10", "How long a file has to be unchanged, for `stable`; `30s`, `5m`."),
    Key(
        "marker",
        "text",
        '"{name}.done"',
        "The name of the marker, for `marker`: one for each file (`{name}` is the file's), or one for a chunk, with "
        "the fields of its id (`{sample}/DONE`).",
    ),
    Key("files", "number", "1", "Number of files in a chunk, if the id leaves out a field."),
    Key(
        "suffixes",
        "list of texts",
        "[]",
        "Suffixes of a chunk's files, after the pattern; each file must exist.",
    ),
    Key(
        "on_change",
        "text",
        '"note"',
        "Reaction to a file that is delivered again with different content (size, time or ETag). `note`: the chunk is "
        "READY again, and the history says why. `redo`: that, and all that was made from it is made "
        "again. `ignore`: nothing.",
    ),
    Key("every", "seconds or text", "2", "How long the watcher waits between two polls; 30 for a bucket."),
    Key(
        "quiet_after",
        "seconds or text",
        "",
        "Longest time without a new file before an alarm is raised, such as `26h`. Without it no alarm.",
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
        "The datasets that the job produces. A dataset has one producing job, and cannot be input and output of the "
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
        "Seconds before a failed chunk is retried, doubled with each further failure, up to 30 days.",
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
        "How a chunk counts whose worker is asked to stop before its command has ended. `interrupt`: the chunk was "
        "interrupted, whatever the exit code. `trust`: the exit code.",
    ),
    Key(
        "recur",
        "seconds or text",
        "0",
        "For a job without outputs: how long after a chunk is DONE it is done again; `90d`, `12h`. 0: never.",
    ),
    Key(
        "maps",
        "table of tables",
        "{}",
        "By input: which of its data ids one data id of the job reads, see below. An input without a mapping is "
        "read by the same data id.",
    ),
    Key(
        "fan_out",
        "list of names",
        "[]",
        "Datasets of which one chunk makes several data ids. Its command lists them in `$HEADGATE_OUTPUT_IDS_FILE`. "
        "They are not listed in `outputs`.",
    ),
)

#: Keys of a job that only `headgate work` uses; they are not stored.
JOB_IN_THE_FILE = (
    Key(
        "command",
        "text or list of texts",
        "",
        "What `headgate work -f FILE` runs on each chunk, in the folder of the file. A text is a line for `/bin/sh`; a "
        "list of words is run without a shell. The chunk is in its [environment](../explanation/environment.md).",
    ),
    Key("workers", "number", "1", "How many chunks of the job one `headgate work` runs at a time."),
    Key(
        "timeout",
        "seconds or text",
        "",
        "How long the command may run on a chunk, such as `2h`. It is then stopped, and the chunk has failed.",
    ),
    Key(
        "key_file",
        "text",
        "",
        "A file with the job's key, which opens the secrets of its datasets; only its owner may be able to read it. "
        "Without it: the key of the setting `job_key`.",
    ),
)

MAP = (
    Key(
        "kind",
        "text",
        "",
        "`same`: the same data id. `period`: the hours of a day, the days of a month, and so on. `window`: the data id "
        "with those before and after it. `split`: data ids that differ in one field. `all`: every data id of the "
        "input. `list`: the same few, always.",
    ),
    Key(
        "period",
        "text",
        "",
        "`period`: what one data id of the job stands for: `hour`, `day`, `week` (ISO), `month`, `quarter` or `year`.",
    ),
    Key(
        "unit",
        "text",
        "",
        "`period`, `window`: what one data id of the input stands for, in the same words. The calendar then says which "
        "data ids there are. Without it a window counts in the input's order, and a period (which then needs `format`) "
        "takes whatever arrives until `headgate job close JOB DATAID`.",
    ),
    Key(
        "format",
        "text",
        "",
        "The input's data ids. `period`, `window`: directives from the table below; left out, the usual ones of the "
        "unit. `split`: fields in braces, such as "
        "`{sample}.{lane}`; each is as short as possible.",
    ),
    Key(
        "job_format",
        "text",
        "",
        "`period`, `split`: the job's data ids, written in the same way; left out, the usual ones of the period.",
    ),
    Key(
        "zone",
        "text",
        '"UTC"',
        "`period`: the time zone in which a day begins, such as `Europe/Berlin`, for data ids that have an hour. Those "
        "hours are always in UTC, so a day has 23 or 25 of them when clocks change.",
    ),
    Key("before", "number", "0", "`window`: how many data ids before its own one reads."),
    Key("after", "number", "0", "`window`: how many data ids after its own one reads."),
    Key("ids", "list of texts", "", "`list`: these data ids."),
    Key(
        "need",
        "text or number",
        '"all"',
        "How many of them must be READY before the job may start: `all`, `any` (at least one) or a number. A window "
        "always needs the data id itself.",
    ),
    Key(
        "on_late",
        "text",
        '"note"',
        "What happens when an input arrives, or changes, after it was read. `note`: the chunk keeps its status and "
        "says so. `redo`: it is made again.",
    ),
    Key(
        "late_delay",
        "seconds or text",
        "600",
        "How long a redo waits, so that many late inputs cause one redo; `30s`, `10m`; at most 30 days.",
    ),
)
