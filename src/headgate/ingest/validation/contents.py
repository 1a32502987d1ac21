"""The bytes of an object: every file exists, and matches every known digest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from headgate.ingest.stopping import Stop, check_stop
from headgate.ingest.validation.findings import Findings
from headgate.ingest.validation.inventories import CheckedInventory
from headgate.ingest.validation.inventory_digests import ContentDigests, is_known
from headgate.ingest.validation.trees import ObjectTree

#: Digests from elsewhere: by the digest that addresses the content, other digests by algorithm.
KnownDigests = Mapping[str, Mapping[str, str]]
#: Called with the number of bytes read or written since the last call.
Progress = Callable[[int], None]
#: The algorithm, the value in lower case, the code if it differs, and the source of the value.
Wanted = tuple[str, str, str, str]


class Expected:
    """Which digests each content path should have."""

    def __init__(self, current: CheckedInventory, priors: Mapping[str, CheckedInventory], known: KnownDigests) -> None:
        self.paths = current.content
        self._current, self._priors, self._known = current, priors, known
        self._others: dict[str, list[Wanted]] = {}
        for found in (current, *priors.values()):
            for algorithm, value, path in found.fixity:
                self._add(path, (algorithm, value, "E093", found.path))
        for found in priors.values():
            for path, digest in found.content.items() if found.algorithm else ():
                self._add(path, (found.algorithm, digest, "E092", found.path))

    def of(self, path: str) -> Iterator[Wanted]:
        """The digests that a file should have."""
        digest = self.paths[path]
        if self._current.algorithm:
            yield self._current.algorithm, digest, "E092", self._current.path
        yield from self._others.get(path, ())
        for algorithm, value in self._known.get(digest, {}).items():
            if is_known(algorithm):
                yield algorithm, value.lower(), "", "the inventory of objects"

    def fixity_of(self, path: str) -> list[str]:
        """The inventories that have fixity of a file."""
        return sorted({whose for _, _, code, whose in self._others.get(path, ()) if code == "E093"})

    def unlisted(self, files: set[str]) -> Iterator[tuple[str, str]]:
        """Files that the current inventory lacks, or that of their own version, and that inventory."""
        for path in sorted(files):
            for found in (self._current, self._priors.get(path.partition("/")[0])):
                if found is not None and path not in found.content:
                    yield path, found.path
                    break

    def _add(self, path: str, wanted: Wanted) -> None:
        if path in self.paths:
            self._others.setdefault(path, []).append(wanted)


def check_contents(
    tree: ObjectTree,
    expected: Expected,
    files: set[str],
    findings: Findings,
    stop: Stop | None,
    progress: Progress | None,
) -> None:
    """Read every file of the manifest once, with all of its digests."""
    for path, whose in expected.unlisted(files):
        findings.add("E023", path, f"it is not in the manifest of {whose}")
    for path in expected.paths:
        if path not in files:
            _report_missing(path, expected, findings)
            continue
        # Every inventory repeats the same values: each one is compared once.
        wanted: dict[tuple[str, str], tuple[str, str]] = {}
        for algorithm, value, code, whose in expected.of(path):
            wanted.setdefault((algorithm, value), (code, whose))
        found = ContentDigests({algorithm for algorithm, _ in wanted})
        try:
            _read(tree, path, found, stop, progress)
        except OSError as error:
            findings.add("", path, f"it cannot be read: {error.strerror or error}")
            continue
        for (algorithm, value), (code, whose) in wanted.items():
            if value != found.value(algorithm):
                why = f"checksum mismatch: expected {algorithm} {value}, got {found.value(algorithm)} ({whose})"
                findings.add(code, path, why)


def _report_missing(path: str, expected: Expected, findings: Findings) -> None:
    findings.add("E092", path, "it is missing")
    for whose in expected.fixity_of(path):
        findings.add("E093", path, f"it is missing, and {whose} has fixity of it")


def _read(tree: ObjectTree, path: str, found: ContentDigests, stop: Stop | None, progress: Progress | None) -> None:
    for block in tree.blocks(path):
        check_stop(stop, "verifying")
        found.update(block)
        if progress:
            progress(len(block))
