"""Watches as people write them in pipeline files."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headgate.core.errors import BadValue
from headgate.core.ledger.watches.model import FileWatch, OnChange, Ready, is_temporary
from headgate.core.ledger.watches.names import WHOLE_NAME, FilePattern, file_pattern
from headgate.core.values.durations import DAY, parse_duration
from headgate.core.values.words import check_word, suggestion

KEYS = (
    "folder", "prefix", "pattern", "id", "ready", "settle", "marker", "files", "suffixes", "on_change", "every",
    "quiet_after",
)  # fmt: skip
#: Seconds between two polls of a folder, and of a bucket.
FOLDER_EVERY, BUCKET_EVERY = 2.0, 30.0
SETTLE = 10.0
MARKER = "{name}.done"
LONGEST_EVERY, LONGEST_SETTLE, LONGEST_QUIET = float(DAY), float(30 * DAY), float(400 * DAY)
MOST_FILES = 10_000


def parse_watch(dataset: str, document: object) -> FileWatch:
    """The watch of a dataset. BadValue names the key and what is allowed."""
    if not isinstance(document, Mapping):
        raise BadValue(f"dataset.{dataset}.watch", document, "is not a table; write folder = and pattern =")
    return _WrittenWatch(dataset, document).read()


@dataclass(frozen=True, slots=True)
class _WrittenWatch:
    """A watch that is being parsed; every error names its key."""

    dataset: str
    given: Mapping[str, Any]

    def key(self, name: str) -> str:
        return f"dataset.{self.dataset}.watch.{name}"

    def bad(self, name: str, why: str) -> BadValue:
        return BadValue(self.key(name), self.given.get(name), why)

    def read(self) -> FileWatch:
        unknown = next((key for key in self.given if key not in KEYS), None)
        if unknown is not None:
            raise BadValue(self.key(unknown), self.given[unknown], f"is unknown; {suggestion(unknown, KEYS)}")
        source = self._source()
        bucket = source.startswith("s3://")
        ready = self._ready(bucket=bucket)
        pattern = self._file_pattern("pattern", self._text("pattern", "for example orders-{date:%Y-%m-%d}.csv"))
        self._check_pattern(pattern)
        ids = self._ids(pattern)
        found = FileWatch(
            self.dataset, source, pattern.text, ids.text, ready,
            self._span("settle", SETTLE, LONGEST_SETTLE) if ready is Ready.STABLE else 0.0,
            self._marker(pattern, ready), self._files(), self._suffixes(), self._on_change(),
            self._span("every", BUCKET_EVERY if bucket else FOLDER_EVERY, LONGEST_EVERY, least=0.1),
            self._span("quiet_after", 1.0, LONGEST_QUIET, least=1.0) if "quiet_after" in self.given else None,
        )  # fmt: skip
        self._check_belonging(found, pattern, ids)
        return found

    # ------------------------------------------------------------ keys

    def _source(self) -> str:
        if ("folder" in self.given) == ("prefix" in self.given):
            told = "has both folder and prefix" if "folder" in self.given else "has neither folder nor prefix"
            raise BadValue(f"dataset.{self.dataset}.watch", dict(self.given), f"{told}; write one of them")
        if "folder" in self.given:
            return self._text("folder", "")
        prefix = self._text("prefix", "")
        bucket = prefix.removeprefix("s3://").partition("/")[0]
        if not prefix.startswith("s3://") or not bucket or "@" in bucket or "?" in prefix:
            raise self.bad("prefix", "is not a prefix of a bucket; write s3://bucket/folder/")
        return prefix if prefix.endswith("/") else f"{prefix}/"

    def _text(self, name: str, example: str) -> str:
        if name not in self.given:
            raise BadValue(f"dataset.{self.dataset}.watch", dict(self.given), f"has no {name}; {example}")
        value = self.given[name]
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            raise self.bad(name, "is not printable text")
        return value

    def _file_pattern(self, name: str, text: str) -> FilePattern:
        try:
            return file_pattern(text)
        except ValueError as error:
            raise BadValue(self.key(name), text, str(error)) from None

    def _check_pattern(self, pattern: FilePattern) -> None:
        if not pattern.fields:
            raise self.bad("pattern", "has no field in braces, such as {date:%Y-%m-%d}")
        if WHOLE_NAME in pattern.fields:
            raise self.bad("pattern", "has the field {name}, which stands for the whole name in marker; rename it")
        self._check_path("pattern", pattern.text)

    def _check_path(self, name: str, text: str) -> None:
        if any(step in ("", ".", "..") for step in text.split("/")):
            raise self.bad(name, "is not a path below the folder; write no /, . or .. at its beginning")
        if is_temporary(text):
            raise self.bad(name, "names temporary or hidden files, which are never counted")

    def _ids(self, pattern: FilePattern) -> FilePattern:
        if "id" not in self.given and len(pattern.fields) > 1:
            fields = ", ".join(f"{{{each}}}" for each in pattern.fields)
            raise BadValue(
                f"dataset.{self.dataset}.watch", dict(self.given), f"has no id, and its pattern has several fields "
                f"({fields}); write how they make the data id, for example id = {_joined(pattern)!r}",
            )  # fmt: skip
        text = self._text("id", "") if "id" in self.given else f"{{{pattern.fields[0]}}}"
        found = self._file_pattern("id", text)
        if "/" in text:
            raise self.bad("id", "has a slash; data ids have none")
        self._check_fields("id", found, pattern)
        return found

    def _check_fields(self, name: str, found: FilePattern, pattern: FilePattern) -> None:
        stray = next((each for each in found.fields if each not in pattern.fields), None)
        if stray is not None:
            raise self.bad(
                name, f"has the field {{{stray}}}, which pattern does not have; {suggestion(stray, pattern.fields)}"
            )
        timeless = next((each for each in found.times if each not in pattern.times), None)
        if timeless is not None:
            raise self.bad(
                name, f"has a format for {{{timeless}}}, which is not a time in pattern; give it a format there"
            )
        for each, form in found.times.items():
            if form.grain < pattern.times[each].grain:
                raise self.bad(name, f"has a finer time than in pattern: {form.text} of {pattern.times[each].text}")

    def _ready(self, *, bucket: bool) -> Ready:
        usual = Ready.MARKER if "marker" in self.given else Ready.WHOLE if bucket else Ready.STABLE
        ready = Ready(check_word(self.key("ready"), self.given.get("ready", str(usual)), tuple(map(str, Ready))))
        if bucket and ready is Ready.STABLE:
            raise self.bad("ready", "is for folders: objects in a bucket are always complete")
        for name, needed in (("settle", Ready.STABLE), ("marker", Ready.MARKER)):
            if name in self.given and ready is not needed:
                raise self.bad(name, f"has no effect here: it belongs to ready = {str(needed)!r}")
        return ready

    def _marker(self, pattern: FilePattern, ready: Ready) -> str:
        if ready is not Ready.MARKER:
            return ""
        text = self._text("marker", "") if "marker" in self.given else MARKER
        found = self._file_pattern("marker", text)
        self._check_path("marker", text)
        if found.fields == (WHOLE_NAME,):
            if text == "{name}":
                raise self.bad("marker", "is the file itself; write {name}.done")
            return text
        if WHOLE_NAME in found.fields:
            raise self.bad("marker", "has {name} beside other fields; write one or the other")
        self._check_fields("marker", found, pattern)
        return text

    def _files(self) -> int:
        value = self.given.get("files", 0)
        if isinstance(value, bool) or not isinstance(value, int) or not (0 < value <= MOST_FILES or value == 0):
            raise self.bad("files", f"is not a whole number from 1 to {MOST_FILES:,}")
        return value

    def _suffixes(self) -> tuple[str, ...]:
        value = self.given.get("suffixes", [])
        if not isinstance(value, list | tuple) or not all(isinstance(each, str) and each for each in value):
            raise self.bad("suffixes", "is not a list of suffixes")
        twice = next((each for each in value if value.count(each) > 1), None)
        if twice is not None:
            raise BadValue(self.key("suffixes"), twice, "is listed twice")
        hidden = next((each for each in value if "/" in each or is_temporary(f"x{each}")), None)
        if hidden is not None:
            raise BadValue(self.key("suffixes"), hidden, "is not a valid suffix of a file that may be counted")
        return tuple(value)

    def _on_change(self) -> OnChange:
        word = self.given.get("on_change", str(OnChange.NOTE))
        return OnChange(check_word(self.key("on_change"), word, tuple(map(str, OnChange))))

    def _span(self, name: str, usual: float, most: float, *, least: float = 0.0) -> float:
        value = self.given.get(name, usual)
        try:
            found = parse_duration(value) if isinstance(value, str) else value
        except ValueError as error:
            raise self.bad(name, str(error)) from None
        usable = isinstance(found, int | float) and not isinstance(found, bool) and math.isfinite(found)
        if not usable or not least <= found <= most:
            raise self.bad(name, f"is not a time from {least:g} to {most:,.0f} seconds; write 30, 30s, 10m, 2h or 1d")
        return float(found)

    # ------------------------------------------------------------ together

    def _check_belonging(self, found: FileWatch, pattern: FilePattern, ids: FilePattern) -> None:
        """Refuse a watch for which nobody could say when a chunk is complete, and settings without effect."""
        if found.files and found.suffixes:
            raise self.bad("files", "and suffixes both say when a chunk has all its files; write one of them")
        left_out = [each for each in pattern.fields if each not in ids.fields or _coarser(each, ids, pattern)]
        several = bool(found.files > 1 or found.suffixes or found.markers_of_chunks)
        if left_out and not several:
            raise BadValue(
                self.key("id"), ids.text, f"leaves out {{{left_out[0]}}}, so several files make one chunk; write "
                "when it has all of them: files = 2, suffixes = ['_R1.fastq.gz', '_R2.fastq.gz'], or a marker of the "
                "chunk",
            )  # fmt: skip
        if found.files > 1 and not left_out:
            raise self.bad("files", "is more than one, but the id has every field, so each file is a chunk of its own")
        if found.markers_of_chunks:
            self._check_marker_of_chunk(found, ids)
        end = "" if pattern.parts[-1][0] == "{" else pattern.parts[-1]
        if "." in end and found.suffixes and all(each.endswith(end) for each in found.suffixes):
            raise self.bad("pattern", f"ends like its suffixes, which follow after it; leave {end!r} out of it")

    def _check_marker_of_chunk(self, found: FileWatch, ids: FilePattern) -> None:
        fields = file_pattern(found.marker).fields
        stray = next((each for each in fields if each not in ids.fields), None)
        missing = next((each for each in ids.fields if each not in fields), None)
        if stray is not None:
            raise self.bad("marker", f"has the field {{{stray}}}, which the id does not have: a chunk has one marker")
        if missing is not None:
            raise self.bad("marker", f"lacks the field {{{missing}}} of the id: each chunk has its own marker")
        file, marker = file_pattern(found.pattern), file_pattern(found.marker)
        example = file.example()
        if not found.suffixes and file.write(example, file.times) == marker.write(example, file.times):
            raise self.bad("marker", "is the file itself; write another name, such as {sample}.done")


def _coarser(field: str, ids: FilePattern, pattern: FilePattern) -> bool:
    return field in ids.times and ids.times[field].grain > pattern.times[field].grain


def _joined(pattern: FilePattern) -> str:
    return "-".join(f"{{{each}}}" for each in pattern.fields)
