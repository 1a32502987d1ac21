"""Untrusted file names: which ones may be written below one of our folders."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from headgate.core.errors import BadValue

#: Maximum bytes of one part of a path, in UTF-8: every current file system can store that.
PART_BYTES = 255
#: Maximum bytes of a whole path; the key of an S3 object may have 1,024, and ours is below a prefix.
PATH_BYTES = 900

#: On Windows they open a device instead of a file, with any extension, in any case.
_DEVICES = frozenset(
    ["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"]
    + [f"{port}{number}" for port in ("COM", "LPT") for number in "0123456789¹²³"]
)
#: Characters that look like a slash or a backslash without being compatible equivalents.
_SLASHES = frozenset("\u2044\u2215\u2216\u29f5\u29f8\u29f9\u2571\u2572\u27cb\u27cd")
#: Joiners: invisible, but part of the spelling in several scripts.
_JOINERS = "\u200c\u200d"
#: The advice for a location where names that differ only in case are one file.
CASE_ADVICE = "does not keep such names apart; rename one of them, or move it to a file system that does"
#: Control, format, surrogate, private and unassigned characters, line and paragraph separators.
_UNSEEN = frozenset(["Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"])


def check_file_name(value: object, what: str = "file name") -> str:
    """A relative path in NFC that stays below its folder on every file system. BadValue with the reason otherwise."""
    if not isinstance(value, str):
        raise BadValue(what, value, f"is {type(value).__name__}, not text")
    why = _why_not(value)
    if why:
        raise BadValue(what, value, why)
    return unicodedata.normalize("NFC", value)


def same_letters(name: str) -> str:
    """Names with the same key are one file on a file system that normalises Unicode, and look alike to users."""
    return unicodedata.normalize("NFC", name.translate(dict.fromkeys(map(ord, _JOINERS))))


def same_place(name: str) -> str:
    """Names with the same key are one file on a file system that also ignores case."""
    folded = unicodedata.normalize("NFD", same_letters(name)).casefold()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", folded))


@dataclass(frozen=True, slots=True)
class Collision:
    """Two names in a list that cannot both be files."""

    #: The position of the later one in the list.
    index: int
    #: The position of the earlier one.
    earlier: int
    #: Why, for people.
    why: str


def collisions(names: Iterable[str], case_blind: str = "") -> Iterator[Collision]:
    """Each name that collides with another: equal, equal after normalisation, or a folder of another.

    `case_blind`: the location where names that differ only in case are one; empty: they are distinct. It needs memory
    only for the names, however many folders they have, and returns collisions in no particular order.
    """
    given = list(names)
    #: Sort keys by which the content of a folder directly follows a file with the folder's name.
    key_of = same_place if case_blind else same_letters
    keyed = sorted((key_of(name).replace("/", "\0"), index) for index, name in enumerate(given))
    above: list[tuple[str, int]] = []
    told: set[int] = set()
    for key, index in keyed:
        while above and not _is_within(key, above[-1][0]):
            above.pop()
        if above:
            earlier, later = sorted((above[0][1], index))
            if later not in told:
                yield Collision(later, earlier, _clash_text(given[later], given[earlier], case_blind))
            told.add(later)
        if not above or above[-1][0] != key:
            above.append((key, index))


def check_file_names(names: Sequence[str], case_blind: str = "") -> None:
    """Whether these can be the files of one version. BadValue names the first that cannot. `case_blind`: see above."""
    for name in names:
        check_file_name(name)
    if clash := next(collisions(names, case_blind), None):
        raise BadValue("files", names[clash.index], clash.why)


def _is_within(key: str, folder: str) -> bool:
    return key.startswith(folder) and key[len(folder) : len(folder) + 1] in ("", "\0")


def _clash_text(name: str, earlier: str, case_blind: str) -> str:
    if name == earlier:
        return f"file name {name!r} is used already"
    if same_letters(earlier) == same_letters(name):
        return f"file name {name!r} differs from {earlier!r} only in how letters are encoded"
    if same_place(earlier) == same_place(name):
        return f"file name {name!r} differs from {earlier!r} only in case, and {case_blind} {CASE_ADVICE}"
    return f"file name {name!r} would be both a file and a folder, because of {earlier!r}"


def _why_not(path: str) -> str:
    return _why_not_whole(path) or next(
        filter(None, map(_why_not_part, unicodedata.normalize("NFC", path).split("/"))), ""
    )


def _why_not_whole(path: str) -> str:
    if len(path) > 4 * PATH_BYTES:  # In any Unicode form; longer names are not examined.
        return f"has {len(path):,} characters; at most {PATH_BYTES} bytes are allowed"
    unseen = next(filter(_is_unseen, path), "")
    if unseen:
        return f"has the character U+{ord(unseen):04X}, which is a control character or invisible"
    size = len(unicodedata.normalize("NFC", path).encode())
    faults = (
        (not path or path.isspace(), "is empty"),
        (path.startswith("/"), "is absolute; names are relative to the object"),
        (path[1:2] == ":" and path[0].isascii() and path[0].isalpha(), "starts with a drive"),
        (size > PATH_BYTES, f"has {size} bytes; at most {PATH_BYTES} are allowed"),
    )
    return next((why for wrong, why in faults if wrong), "")


@lru_cache(maxsize=4096)
def _why_not_part(part: str) -> str:
    alike = unicodedata.normalize("NFKC", part)
    size = len(part.encode())
    # Some systems recognise a device by the name up to the first dot or colon, ignoring trailing blanks.
    device = alike.replace(":", ".").partition(".")[0].rstrip().upper()
    faults = (
        (not part, "has an empty part between slashes"),
        (part in (".", ".."), f"has the part {part!r}; remove it"),
        (size > PART_BYTES, f"has a part of {size} bytes; at most {PART_BYTES} are allowed"),
        (
            not _SLASHES.isdisjoint(part) or "/" in alike or "\\" in alike,
            ("has a backslash, or a character that looks like a slash"),
        ),
        (part[-1:] == "." or part[-1:].isspace(), "has a part that ends with a dot or a blank"),
        (not alike.strip(". "), "has a part that looks like '..'"),
        (device in _DEVICES, "is reserved: some systems open a device by that name"),
    )
    return next((why for wrong, why in faults if wrong), "")


@lru_cache(maxsize=4096)
def _is_unseen(letter: str) -> bool:
    return letter not in _JOINERS and unicodedata.category(letter) in _UNSEEN
