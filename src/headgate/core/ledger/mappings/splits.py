"""Splits: upstream ids that differ in one field belong to one data id of the job."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.core.ledger.mappings.patterns import name_pattern
from headgate.core.ledger.mappings.sources import Listed, Matching, Sources


@dataclass(frozen=True, slots=True)
class SplitRule:
    """Data ids such as `{sample}.{lane}` belong to `{sample}`."""

    format: str
    job_format: str

    def targets(self, upstream_id: str) -> tuple[str, ...]:
        """The data id with the fields of an upstream id."""
        fields = name_pattern(self.format).read(upstream_id)
        return () if fields is None else (name_pattern(self.job_format).write(fields),)

    def sources(self, dataid: str) -> Sources:
        """Whatever arrives with the same fields until the data id is closed."""
        return Listed(()) if self.fault(dataid) else Matching(self._prefix(dataid))

    def fault(self, dataid: str) -> str:
        """Why a data id does not match the job's pattern; empty if it does."""
        readable = name_pattern(self.job_format).read(dataid) is not None
        return "" if readable else f"{dataid} is not of the form {self.job_format}"

    def _prefix(self, dataid: str) -> str:
        """What all upstream ids begin with: as far as the fields of the data id are certain."""
        known, found = name_pattern(self.job_format).beginnings(dataid), ""
        for part in name_pattern(self.format).parts:
            text, whole = (part, True) if part[0] != "{" else known.get(part[1:-1], ("", False))
            found += text
            if not whole:
                break
        return found
