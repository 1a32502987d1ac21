"""Mappings that ignore the data id: the same one, all existing ones, or a fixed list."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.core.ledger.mappings.sources import Everything, Listed, Sources


@dataclass(frozen=True, slots=True)
class SameRule:
    """A data id reads the one with the same name."""

    def targets(self, upstream_id: str) -> tuple[str, ...]:
        """The same data id."""
        return (upstream_id,)

    def sources(self, dataid: str) -> Sources:
        """The same data id."""
        return Listed((dataid,))

    def fault(self, dataid: str) -> str:
        """Any data id is valid."""
        del dataid
        return ""


@dataclass(frozen=True, slots=True)
class WholeRule:
    """Every data id of the job reads all of the input, or a fixed list: reference data."""

    #: None: everything.
    ids: tuple[str, ...] | None

    def targets(self, upstream_id: str) -> tuple[str, ...]:
        """None, since they cannot be listed: every data id of the job reads it."""
        del upstream_id
        return ()

    def sources(self, dataid: str) -> Sources:
        """Everything, or the list."""
        del dataid
        return Everything() if self.ids is None else Listed(self.ids)

    def fault(self, dataid: str) -> str:
        """Any data id is valid."""
        del dataid
        return ""
