"""Digests in depositors' notation: the algorithms, and the form of a value of each."""

from __future__ import annotations

import re

from headgate.core.errors import BadValue
from headgate.core.values.words import check_word

#: Number of hexadecimal digits of a value, by the algorithm's name here and in hashlib (adler32 and crc32: in zlib).
HEX_DIGITS = {"adler32": 8, "crc32": 8, "md5": 32, "sha1": 40, "sha256": 64, "sha384": 96, "sha512": 128}
#: Algorithms allowed in a fixity block of OCFL 1.1: the specification's, and those of extension 0009. `size` is the
#: number of bytes, in decimal digits; for the others, the number of hexadecimal digits.
OCFL_DIGITS = {
    "md5": 32, "sha1": 40, "sha256": 64, "sha512": 128, "blake2b-512": 128,
    "blake2b-160": 40, "blake2b-256": 64, "blake2b-384": 96, "sha512/256": 64, "size": 0,
}  # fmt: skip
#: Computed by default.
DEFAULT = "sha256"


def check_algorithm(value: object) -> str:
    """The algorithm's name: SHA-256, sha256 and Sha-256 are equal."""
    name = value.lower().replace("-", "") if isinstance(value, str) else value
    return check_word("digest algorithm", name, tuple(HEX_DIGITS))


def check_digest(algorithm: str, value: object) -> str:
    """A value of that algorithm in lower case; 32-bit checksums may lack leading zeros."""
    digits = HEX_DIGITS[algorithm]
    text = value.lower() if isinstance(value, str) else ""
    if digits == 8 and 1 <= len(text) <= 8:
        text = text.zfill(8)
    if not re.fullmatch(f"[0-9a-f]{{{digits}}}", text):
        raise BadValue("digest", value, f"is not the {digits} hexadecimal digits of {algorithm}")
    return text


def spelled(algorithm: str) -> str:
    """As in manifests and inventories: SHA-256, MD5."""
    return re.sub("^SHA(?=[0-9]{3})", "SHA-", algorithm.upper())
