"""Which files make a chunk, and whether all of them are there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from headgate.core.ledger.watches.model import FileMark, FileWatch, Parcel, Ready, is_temporary
from headgate.core.ledger.watches.names import UnreadableName

#: Number of unusable names that match the pattern and are reported.
MOST_STRANGE = 20


@dataclass(slots=True)
class Gathered:
    """The result of one poll of a folder or prefix."""

    #: Chunks whose files all count.
    ready: list[Parcel] = field(default_factory=list)
    #: Files that do not count yet, or whose chunk is incomplete.
    waiting: int = 0
    #: Files and markers that will count once they have been unchanged long enough.
    unsettled: list[FileMark] = field(default_factory=list)
    #: Names that match the pattern but name no chunk, each with the reason.
    strange: dict[str, str] = field(default_factory=dict)


class Gatherer:
    """Groups files into chunks, according to one watch. It remembers the meaning of names."""

    def __init__(self, watch: FileWatch) -> None:
        self._watch = watch
        self._meanings: dict[str, tuple[str, str] | str | None] = {}

    def gather(
        self, found: Mapping[str, FileMark], news: Callable[[FileMark], bool], counts: Callable[[FileMark], bool]
    ) -> Gathered:
        """The chunks that are ready, given all existing files.

        :param news: Whether a file is new, or differs from the one that was counted; chunks without such a file are
        ignored.
        :param counts: Whether a file has been unchanged long enough.
        """
        result = Gathered()
        chunks = self._chunks(found, news, result)
        for dataid, (files, marker) in chunks.items():
            early = self._early(files, marker, found, counts) if self._complete(files) else None
            result.unsettled += early or ()
            if early == []:
                result.ready.append(Parcel(dataid, tuple(sorted(files, key=lambda each: each.name))))
            else:
                result.waiting += len(files)
        return result

    def _chunks(
        self, found: Mapping[str, FileMark], news: Callable[[FileMark], bool], result: Gathered
    ) -> dict[str, tuple[list[FileMark], dict[str, str]]]:
        """The files of every chunk with a new one, each with the name of its marker."""
        meanings = [(mark, self._meaning(mark.name, result)) for mark in found.values() if not is_temporary(mark.name)]
        known = [(mark, meaning) for mark, meaning in meanings if isinstance(meaning, tuple)]
        markers = {meaning[1] for _, meaning in known if meaning[1]}
        files = [(mark, meaning) for mark, meaning in known if mark.name not in markers]
        wanted = {dataid for mark, (dataid, _) in files if news(mark)}
        chunks: dict[str, tuple[list[FileMark], dict[str, str]]] = {}
        for mark, (dataid, marker) in files:
            if dataid in wanted:
                of_chunk = chunks.setdefault(dataid, ([], {}))
                of_chunk[0].append(mark)
                of_chunk[1][mark.name] = marker
        return chunks

    def _meaning(self, name: str, result: Gathered) -> tuple[str, str] | str | None:
        if name not in self._meanings:
            self._meanings[name] = self._read(name)
        meaning = self._meanings[name]
        if isinstance(meaning, str) and len(result.strange) < MOST_STRANGE:
            result.strange[name] = meaning
        return meaning

    def _read(self, name: str) -> tuple[str, str] | str | None:
        try:
            return self._watch.chunk_of(name)
        except UnreadableName as error:
            return str(error)

    def forget_all_but(self, names: Iterable[str]) -> None:
        """Names that no longer exist are forgotten."""
        if len(self._meanings) > 2 * len(kept := set(names)) + 1000:
            self._meanings = {name: meaning for name, meaning in self._meanings.items() if name in kept}

    def _complete(self, files: list[FileMark]) -> bool:
        if self._watch.suffixes:
            return all(any(self._ends(each.name, suffix) for each in files) for suffix in self._watch.suffixes)
        return len(files) >= self._watch.files

    def _ends(self, name: str, suffix: str) -> bool:
        fitting = [each for each in self._watch.suffixes if name.endswith(each)]
        return bool(fitting) and max(fitting, key=len) == suffix

    def _early(
        self, files: list[FileMark], markers: Mapping[str, str], found: Mapping[str, FileMark],
        counts: Callable[[FileMark], bool],
    ) -> list[FileMark] | None:  # fmt: skip
        """The files that have not been unchanged long enough; None when a marker is missing, or older than its file."""
        if self._watch.ready is not Ready.MARKER:
            return [each for each in files if not counts(each)]
        there = [found.get(markers[each.name]) for each in files]
        if any(one is None or one.modified < each.modified for one, each in zip(there, files, strict=True)):
            return None
        return [one for one in there if one is not None and not counts(one)]
