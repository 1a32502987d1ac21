"""Names of files that strangers give us: what may be written below a folder of ours, and nothing else."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from headgate.core.errors import BadValue

#: Bytes of one part of a path, in UTF-8: what every file system of today can keep.
PART_BYTES = 255
#: Bytes of a whole path; the key of an S3 object may have 1,024, and ours goes below a prefix.
PATH_BYTES = 900

#: They open a device instead of a file on Windows, with any ending, in any case.
_DEVICES = frozenset(
    ["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"]
    + [f"{port}{number}" for port in ("COM", "LPT") for number in "0123456789¹²³"]
)
#: Characters that look like a slash or a backslash and have no compatible form that is one.
_SLASHES = frozenset("\u2044\u2215\u2216\u29f5\u29f8\u29f9\u2571\u2572\u27cb\u27cd")
#: Joiners: invisible, and part of the spelling in several scripts.
_JOINERS = "\u200c\u200d"
#: What is said of a place where names that differ only in case are one file.
CASE_ADVICE = "does not keep such names apart; rename one of them, or move it to a file system that does"
#: Control, format, surrogate, private and unassigned characters, line and paragraph separators.
_UNSEEN = frozenset(["Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"])


def check_file_name(value: object, what: str = "file name") -> str:
    """A relative path in NFC that stays below its folder on every file system. BadValue says why it does not."""
    if not isinstance(value, str):
        raise BadValue(what, value, f"is {type(value).__name__}, not text")
    why = _why_not(value)
    if why:
        raise BadValue(what, value, why)
    return unicodedata.normalize("NFC", value)


def same_letters(name: str) -> str:
    """Names with the same key are one file on a file system that spells letters its own way, and look alike to all."""
    return unicodedata.normalize("NFC", name.translate(dict.fromkeys(map(ord, _JOINERS))))


def same_place(name: str) -> str:
    """Names with the same key are one file on a file system that also ignores case."""
    folded = unicodedata.normalize("NFD", same_letters(name)).casefold()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", folded))


@dataclass(frozen=True, slots=True)
class Collision:
    """Two names of one list that cannot both be files."""

    #: Where the later one stands in the list.
    index: int
    #: Where the earlier one stands.
    earlier: int
    #: Why, for people.
    why: str


def collisions(names: Iterable[str], case_blind: str = "") -> Iterator[Collision]:
    """Each name that is another's again: the same, alike but for the spelling of letters, or a folder of another.

    `case_blind`: the place for which names that differ only in case are one; empty: they are kept apart.
    Takes memory for the names alone, however many folders they have, and finds collisions in no particular order.
    """
    given = list(names)
    #: Keys in an order in which what is in a folder directly follows the file of the folder's name.
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
    if len(path) > 4 * PATH_BYTES:  # However its letters are spelt; what is longer is not even looked at.
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
    # Some systems take a device by the name up to the first dot or colon, blanks at its end aside.
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
