"""Definitions of datasets and jobs: all are checked, including keys and secrets, before any is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from headgate.core.errors import BadValue
from headgate.core.ledger.expectations.parsing import parse_expectation
from headgate.core.ledger.mappings.parsing import parse_maps
from headgate.core.ledger.model import Dataset, Defined, Job
from headgate.core.ledger.parsing import parse_order
from headgate.core.ledger.pipeline import check_count, check_job, parse_on_failure, parse_recur, parse_stop_exit
from headgate.core.values.names import check_name
from headgate.core.values.variables import NamePatterns, check_job_variables
from headgate.service.checks import check_names, check_span, check_texts, check_uri
from headgate.service.secrets.holders import check_confirmed
from headgate.service.secrets.use_cases import Secrets, check_secrets

Bodies = Mapping[str, Mapping[str, Any]]


class Definitions:
    """Definitions of datasets and jobs."""

    def __init__(self, datasets: Bodies, jobs: Bodies, variables: NamePatterns) -> None:
        self.datasets, self.jobs = [], []
        for name, body in datasets.items():
            with _named("dataset", name):
                self.datasets.append(_dataset(name, **_without_secrets(body)))
        for name, body in jobs.items():
            with _named("job", name):
                self.jobs.append(_job(name, variables, **body))
        #: Secrets of the datasets that define them.
        self._secrets = {
            name: check_secrets(body["secrets"]) for name, body in datasets.items() if body.get("secrets") is not None
        }

    def check(self, secrets: Secrets, holders: Iterable[str], *, share: bool) -> None:
        """Raise the errors that sealing would raise: unreadable or wrong keys, unconfirmed holders."""
        for name, values in self._secrets.items():
            secrets.check(name, values, [job.name for job in self.jobs if name in job.uses])
        uses = {job.name: job.uses for job in self.jobs} if share else {}
        named = [name for name, values in self._secrets.items() if values]
        if uses or self._secrets:
            allowed = {each.name: each.secret_jobs for each in self.datasets}
            check_confirmed(secrets.new_holders(uses, named, allowed), holders)

    def seal(self, secrets: Secrets, holders: Iterable[str], *, share: bool) -> Defined:
        """Seal the checked secrets, now that everything is defined. Returns the changes, and warnings."""
        changes: list[str] = []
        warnings: list[str] = []
        for name, values in self._secrets.items():
            lines, told = secrets.set(name, values, holders)
            changes, warnings = changes + lines, warnings + told
        for job in self.jobs if share else ():
            warnings += secrets.share(job.name, holders)
        return Defined(tuple(changes), tuple(dict.fromkeys(warnings)))


@contextmanager
def _named(noun: str, name: str) -> Iterator[None]:
    """Name the dataset or job in errors about its properties."""
    try:
        yield
    except BadValue as error:
        if repr(name) in str(error):
            raise
        raise BadValue(error.what, error.value, f"of {noun} {name!r} {error.why}") from error


def _without_secrets(body: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key != "secrets"}


def _dataset(
    name: str,
    *,
    uri: str = "",
    order: str = "natural",
    settings: Mapping[str, str] | None = None,
    secret_jobs: Sequence[str] | None = None,
    expect: Mapping[str, Any] | None = None,
) -> Dataset:
    return Dataset(
        check_name("dataset", name), check_uri(uri), parse_order(order), check_texts("settings", settings),
        secret_jobs=None if secret_jobs is None else check_names("secret_jobs", secret_jobs),
        expect=parse_expectation(expect).to_document() if expect else {},
    )  # fmt: skip


def _job(  # noqa: PLR0913 - each is a property by its name
    name: str,
    variables: NamePatterns,
    *,
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    max_attempts: int = 3,
    max_crashes: int = 3,
    max_interruptions: int = 10,
    retry_delay: float = 0,
    on_failure: str = "rerun",
    stop_exit: str = "interrupt",
    recur: float | str = 0,
    maps: Mapping[str, Mapping[str, Any]] | None = None,
    fan_out: Sequence[str] = (),
) -> Job:
    job = Job(
        check_name("job", name),
        check_names("inputs", inputs),
        check_names("outputs", outputs),
        check_texts("environment", environment),
        check_count("max_attempts", max_attempts),
        check_count("max_crashes", max_crashes),
        check_count("max_interruptions", max_interruptions),
        check_span("retry_delay", retry_delay),
        parse_on_failure(on_failure),
        parse_stop_exit(stop_exit),
        recur=parse_recur(recur),
        maps=parse_maps(maps, inputs),
        fan_out=check_names("fan_out", fan_out),
    )
    check_job_variables(job.environment, variables, "here")
    return check_job(job)
