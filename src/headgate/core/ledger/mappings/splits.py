"""Splits: several upstream ids that differ in one field belong to one data id of the job."""

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
        """The data id that has the fields of an upstream id."""
        fields = name_pattern(self.format).read(upstream_id)
        return () if fields is None else (name_pattern(self.job_format).write(fields),)

    def sources(self, dataid: str) -> Sources:
        """Whatever arrives with the same fields until the data id is closed."""
        return Listed(()) if self.fault(dataid) else Matching(self._prefix(dataid))

    def fault(self, dataid: str) -> str:
        """Why a data id is not of the job's pattern; empty if it is."""
        readable = name_pattern(self.job_format).read(dataid) is not None
        return "" if readable else f"{dataid} is not of the form {self.job_format}"

    def _prefix(self, dataid: str) -> str:
        """What stands before the first field, and that field where the job's data id has no other."""
        parts, shown = name_pattern(self.format).parts, name_pattern(self.job_format)
        fields = shown.read(dataid) if len(shown.fields) == 1 else None
        found = ""
        for part in parts:
            if part[0] != "{":
                found += part
            elif fields is not None and part[1:-1] in fields:
                found += fields[part[1:-1]]
            else:
                break
        return found
