"""The findings of a validation so far."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.ingest.validation.codes import CODES

#: Maximum number of findings about one object.
MOST_FINDINGS = 1000
#: Maximum length of a reason, and of a path.
LONGEST = 600


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """A rule that an object violates."""

    #: E…: an error; W…: a warning; empty: an error without a code in the specification.
    code: str
    #: Below the object root; empty: the object itself.
    path: str
    why: str

    @property
    def is_warning(self) -> bool:
        return self.code.startswith("W")


class Findings:
    """Collects findings, each once."""

    def __init__(self) -> None:
        self._found: dict[RuleFinding, None] = {}
        self._told_of_more = False

    def add(self, code: str, path: str, why: str) -> None:
        """Record a finding; beyond MOST_FINDINGS only the fact that there are more."""
        if code and (code not in CODES or CODES[code].unused):
            raise ValueError(f"{code} is not a known code")
        if len(self._found) < MOST_FINDINGS:
            self._found[RuleFinding(code, _shown(path), _shown(why))] = None
        elif not self._told_of_more:
            self._told_of_more = True
            self._found[
                RuleFinding("", "", f"there are more than {MOST_FINDINGS:,} findings; the rest is left out")
            ] = None

    @property
    def all(self) -> list[RuleFinding]:
        return list(self._found)

    @property
    def errors(self) -> int:
        return sum(not each.is_warning for each in self._found)


def _shown(text: str) -> str:
    """Names that are not UTF-8 cannot be printed unchanged."""
    cut = text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
    return cut.encode("utf-8", "backslashreplace").decode()
