"""ARKs (draft-kunze-ark-41): parsing, normalisation, comparison, check characters; and a minter that never issues a
name twice.
"""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass

from headgate.core.errors import BadValue
from headgate.core.queue.model import check_item_id, is_batch

#: Digits and consonants without l: they form no words, and are not mistaken for each other.
BETANUMERIC = "0123456789bcdfghjkmnpqrstvwxz"
DIGITS = "0123456789"

#: Maximum length of an ARK, including the resolver before it.
LONGEST = 1000

_ARK = re.compile("(?:[a-z][a-z0-9+.-]*://.*?/)?ark:/?([^/]+)/(.+)", re.IGNORECASE)
_NAAN = re.compile(f"[{BETANUMERIC}]{{5,}}")
#: Letters and digits, the draft's other characters, %xx, and the two structural characters.
_NAME = re.compile("(?:[A-Za-z0-9=~*+@_$./]|%[0-9A-F]{2})+")
_SHOULDER = re.compile(f"(?=.{{1,20}}$)[{BETANUMERIC}]*[0-9]")
#: Replacements for a typed hyphen; all are insignificant in an ARK.
_HYPHENS = dict.fromkeys(map(ord, "-\u00ad\u2010\u2011\u2012\u2013\u2014\u2015"))

#: The alphabets of a name in turn; every third character is a digit, so that no words are formed (NOID's mask eed).
_MASK = (BETANUMERIC, BETANUMERIC, DIGITS)
#: When a namespace is used up, names become one mask longer.
_FIRST_MASKS = 2
_ROUNDS = 6


@dataclass(frozen=True, slots=True)
class Ark:
    """An ARK in normal form: two equal ones are the same identifier."""

    #: The Name Assigning Authority Number.
    naan: str
    #: The authority's name for the object.
    name: str
    #: A part (/…) or variant (.…) of the object; empty: the object itself.
    qualifier: str = ""

    def __str__(self) -> str:
        # The old label: EZID and Merritt write this form, and readers must accept both.
        return f"ark:/{self.naan}/{self.name}{self.qualifier}"


def parse(text: object) -> Ark:
    """An ARK in any spelling (with a resolver before it, `ark:` or `ark:/`, hyphens, `?info`)."""
    if not isinstance(text, str):
        raise BadValue("ARK", text, f"is {type(text).__name__}, not text")
    if len(text) > LONGEST:
        raise BadValue("ARK", text, f"has {len(text):,} characters; at most {LONGEST} are allowed")
    found = _ARK.fullmatch(text.strip().partition("?")[0].translate(_HYPHENS))
    if not found:
        raise BadValue("ARK", text, "does not have the form ark:/12345/name")
    naan = found[1].lower()
    if not _NAAN.fullmatch(naan):
        raise BadValue("ARK", text, "has no authority number (five or more of the digits and consonants) after ark:/")
    return Ark(naan, *_name_and_qualifier(text, found[2]))


def parse_object(text: object) -> Ark:
    """The ARK of a whole object."""
    ark = parse(text)
    if ark.qualifier:
        raise BadValue("ARK", text, f"names a part or variant ({ark.qualifier}) of an object, not an object")
    return ark


def same(one: str, other: str) -> bool:
    """Whether two spellings are one ARK."""
    return parse(one) == parse(other)


def dataid(ark: Ark, version: int) -> str:
    """The data id of a version of a stored object: `ark_13030_m5abc.v3`."""
    return f"{lock_name(ark)}.v{version}"


def lock_name(ark: Ark) -> str:
    """An ARK as a name without slashes: `ark_13030_m5abc`."""
    return re.sub(":?/", "_", str(ark))


def of_lock_name(name: str) -> Ark:
    """The ARK for a name without slashes; BadValue if there is none."""
    head, _, rest = name.partition("_")
    naan, _, local = rest.partition("_")
    return parse_object(f"{head}:/{naan}/{local}")


# ---------------------------------------------------------------- check character


def check_character(text: str) -> str:
    """The NOID check character of `NAAN/name`: it detects each wrong character and each transposition of two."""
    return BETANUMERIC[sum(place * max(BETANUMERIC.find(letter), 0) for place, letter in enumerate(text, 1)) % 29]


# ---------------------------------------------------------------- minter


def check_shoulder(value: object) -> Ark:
    """The prefix of every name from a minter: `ark:/99999/fk4`, betanumeric, with a digit at its end."""
    shoulder = parse_object(value)
    if not _SHOULDER.fullmatch(shoulder.name):
        raise BadValue("shoulder", value, "must be at most 20 digits and consonants (no l), the last of them a digit")
    return shoulder


def mint(shoulder: str, number: int, key: bytes = b"") -> Ark:
    """The name for that number: always the same one, and different for different numbers.

    The names look random; the shoulder and the key determine the order. A shoulder belongs to one store: two stores
    count alike, so with the same shoulder and key they would issue the same names.
    """
    head = check_shoulder(shoulder)
    if type(number) is not int or number < 0:
        raise BadValue("number", number, "is not a whole number of 0 or more")
    secret = hashlib.blake2b(str(head).encode(), key=hashlib.sha256(key).digest()).digest()
    masks = _FIRST_MASKS
    while number >= _space(masks):
        number -= _space(masks)
        masks += 1
    name = head.name + _spell(_shuffle(number, _space(masks), secret), masks)
    return Ark(head.naan, name + check_character(f"{head.naan}/{name}"))


def mint_for(job_id: str, shoulder: str, key: bytes = b"") -> Ark:
    """The name of an ingest job's object. It is the same name each time, even after a restart."""
    if is_batch(check_item_id(job_id)):
        raise BadValue("ingest job", job_id, "is a batch")
    return mint(shoulder, int(job_id[3:]), key)


def _space(masks: int) -> int:
    return math.prod(len(alphabet) for alphabet in _MASK * masks)


def _spell(number: int, masks: int) -> str:
    letters = []
    for alphabet in _MASK * masks:
        number, place = divmod(number, len(alphabet))
        letters.append(alphabet[place])
    return "".join(letters)


def _shuffle(value: int, size: int, secret: bytes) -> int:
    """A permutation of the numbers below `size`: a Feistel network, repeated until the result is in range."""
    half = ((size - 1).bit_length() + 1) // 2
    while True:
        value = _feistel(value, half, secret)
        if value < size:
            return value


def _feistel(value: int, half: int, secret: bytes) -> int:
    ones = (1 << half) - 1
    left, right = value >> half, value & ones
    for step in range(_ROUNDS):
        mixed = hashlib.blake2b(bytes([step]) + right.to_bytes(16), key=secret, digest_size=16).digest()
        left, right = right, left ^ (int.from_bytes(mixed) & ones)
    return left << half | right


def _name_and_qualifier(text: str, rest: str) -> tuple[str, str]:
    rest = re.sub("%..", lambda found: found[0].upper(), rest)
    # Of consecutive structural characters the first counts; at the ends they are insignificant.
    rest = re.sub("([./])[./]+", r"\1", rest).strip("./")
    if not _NAME.fullmatch(rest):
        raise BadValue("ARK", text, "has no name, or one with a character that is not allowed in an ARK")
    if re.search(r"\.[^./]*/", rest):
        raise BadValue("ARK", text, "has a variant (after a dot) before a part (after a slash)")
    name = re.split("[./]", rest, maxsplit=1)[0]
    return name, rest[len(name) :]
