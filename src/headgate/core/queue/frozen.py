"""The parts of a failed ingest job that were fixed at its start, and that a resume would use."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from headgate.core.values.wire import rfc3339


@dataclass(frozen=True, slots=True)
class Frozen:
    """The frozen parts that a resume of a failed job would use."""

    job: str
    #: When its batch stored the profile; None: it stored none, or before this was recorded.
    profile_since: datetime | None = None
    #: The keys of the profile that have changed since.
    profile_changes: tuple[str, ...] = ()
    #: Why the current profile cannot be used; empty: it can.
    profile_problem: str = ""
    #: When the job stored its object manifest; None: it stored none.
    manifest_since: datetime | None = None
    #: Whether the manifest would be fetched again: false if it is stored, or its digest was submitted.
    manifest_refreshable: bool = False

    @property
    def sentences(self) -> list[str]:
        """The frozen parts, when they were stored, and whether they have changed."""
        since = "from the start of its batch" if self.profile_since is None else f"of {_time(self.profile_since)}"
        changed = f"; {', '.join(self.profile_changes)} changed since" if self.profile_changes else "; it is unchanged"
        if self.profile_problem:
            changed = f"; the current one cannot be used: {self.profile_problem}"
        found = [f"{self.job} keeps the profile {since}{changed}"]
        if self.manifest_since is not None:
            found.append(f"{self.job} keeps its manifest as it was fetched at {_time(self.manifest_since)}")
        return found


def _time(at: datetime) -> str:
    return f"{rfc3339(at)[:19]}Z"
