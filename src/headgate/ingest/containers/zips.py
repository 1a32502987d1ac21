"""Untrusted zip files, read with bounded memory: first the list of members, then one member after another."""

from __future__ import annotations

import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import BinaryIO

from headgate.core.errors import BadValue
from headgate.ingest.containers.budget import HEADER_BYTES, Budget, PackedMember
from headgate.ingest.containers.inflating import KNOWN, METHODS, NAMES
from headgate.ingest.formats.hashing import BLOCK

#: Number of compressed bytes that are read at once.
_STEP = 1 << 16
#: Encrypted, patched, strongly encrypted, or with a hidden list of members.
_ENCRYPTED = 0x1 | 0x40 | 0x2000
_PATCHED = 0x20
_UTF8 = 0x800
_END = struct.Struct("<4s4H2LH")
_ZIP64_PLACE = struct.Struct("<4sLQL")
_ZIP64_END = struct.Struct("<4sQ2H2L4Q")
_LISTED = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_LARGE = 0xFFFFFFFF
#: Kinds of extra fields: sizes and offsets beyond 4 GB, and a UTF-8 name besides the one in another encoding.
_LARGE_VALUES, _UNICODE_NAME = 0x0001, 0x7075
#: The system for which a member was created, for DOS and Windows.
_DOS = 0


@dataclass(frozen=True, slots=True)
class _Member:
    """A member according to the list at the end of the file."""

    name: str
    flags: int
    method: int
    checksum: int
    packed: int
    size: int
    attributes: int
    #: The start of its own header.
    place: int


def zip_entries(raw: BinaryIO, budget: Budget) -> Iterator[PackedMember]:
    """The members of a zip file that are regular files."""
    start, end, shift = _directory(raw, budget)
    members = list(_listed(raw, start, end, shift, budget))
    ends = _check_overlap(members, start, budget)
    for member, last in zip(members, ends, strict=True):
        if member.name.endswith("/"):
            continue
        _check(member, budget)
        yield PackedMember(member.name, member.size, partial(_blocks, raw, member, last, budget))


def _check(member: _Member, budget: Budget) -> None:
    name = member.name
    if stat.S_IFMT(member.attributes >> 16) not in (0, stat.S_IFREG):
        raise budget.refusal(f"{name!r} is a link or a device; only regular files are accepted")
    if member.flags & _ENCRYPTED or member.method == 99:
        raise budget.refusal(f"{name!r} is encrypted")
    if member.flags & _PATCHED:
        raise budget.refusal(f"{name!r} is a patch for another file")
    if member.method not in METHODS:
        method = NAMES.get(member.method, f"method {member.method}")
        raise budget.refusal(f"{name!r} is compressed with {method}, which is not supported; supported: {KNOWN}")


# ---------------------------------------------------------------- the list of members


def _directory(raw: BinaryIO, budget: Budget) -> tuple[int, int, int]:
    """The start and end of the list of members, and the shift of all offsets in it."""
    start = max(0, raw.seek(0, os.SEEK_END) - (_END.size + 0xFFFF))
    raw.seek(start)
    tail = raw.read(_END.size + 0xFFFF)
    place = _end_record(tail)
    fields = _END.unpack_from(tail, place)
    count, size, offset, end = fields[4], fields[5], fields[6], start + place
    locator = place - _ZIP64_PLACE.size
    if locator >= 0 and tail[locator : locator + 4] == b"PK\6\7":
        end = start + locator - _ZIP64_END.size
        raw.seek(max(0, end))
        large = _ZIP64_END.unpack(raw.read(_ZIP64_END.size))
        if large[0] != b"PK\6\6":
            raise zipfile.BadZipFile("its ZIP64 list of members is missing")
        count, size, offset = large[7], large[8], large[9]
    if count > budget.limits.files or size > HEADER_BYTES + budget.limits.files * 1024:
        raise budget.refusal(f"it lists more than {budget.limits.files:,} files")
    if end - size < 0 or end - size < offset:
        raise zipfile.BadZipFile("its list of members is not at the recorded position")
    return end - size, end, end - size - offset


def _end_record(tail: bytes) -> int:
    """The position of the last record of a zip file, which only the comment follows."""
    place = tail.rfind(b"PK\5\6")
    while place >= 0:
        if place + _END.size <= len(tail) and place + _END.size + _END.unpack_from(tail, place)[7] <= len(tail):
            return place
        place = tail.rfind(b"PK\5\6", 0, place)
    raise zipfile.BadZipFile("its list of members is missing")


def _listed(raw: BinaryIO, start: int, end: int, shift: int, budget: Budget) -> Iterator[_Member]:
    raw.seek(start)
    place = start
    while place < end:
        budget.one_more()
        head = raw.read(_LISTED.size)
        (
            mark, made_by, _, flags, method, _, _, checksum, packed, size, name_bytes, extra_bytes, comment_bytes, _, _,
            attributes, offset,
        ) = _LISTED.unpack(head)  # fmt: skip
        place += _LISTED.size + name_bytes + extra_bytes + comment_bytes
        if mark != b"PK\1\2" or place > end:
            raise zipfile.BadZipFile("its list of members is damaged")
        written, extra = raw.read(name_bytes), _extra_fields(raw.read(extra_bytes))
        name = _name(written, flags, extra.get(_UNICODE_NAME, b""), made_by >> 8)
        size, packed, offset = _large_values(extra.get(_LARGE_VALUES, b""), [size, packed, offset])
        raw.seek(comment_bytes, os.SEEK_CUR)
        yield _Member(name, flags, method, checksum, packed, size, attributes, offset + shift)


def _extra_fields(extra: bytes) -> dict[int, bytes]:
    """The extra fields of a member, by kind; of two of a kind the first one counts."""
    found: dict[int, bytes] = {}
    place = 0
    while place + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, place)
        found.setdefault(kind, extra[place + 4 : place + 4 + length])
        place += 4 + length
    return found


def _large_values(field: bytes, values: list[int]) -> list[int]:
    """Sizes and offsets that do not fit into the list's own fields are in an extra field, in this order."""
    numbers = iter(struct.unpack_from(f"<{len(field) // 8}Q", field))
    return [next(numbers, value) if value == _LARGE else value for value in values]


def _name(written: bytes, flags: int, unicode_name: bytes, system: int) -> str:
    """A member's name, in UTF-8 with or without the flag for it, or in an extra field.

    Otherwise the specification says CP437, and programs for DOS and Windows follow it; others write Latin-1, in which
    the bytes from 0x80 to 0x9f are not letters.
    """
    if not flags & _UTF8 and unicode_name[:5] == struct.pack("<BL", 1, zlib.crc32(written)):
        return unicode_name[5:].decode()
    try:
        return written.decode()
    except UnicodeDecodeError:
        if flags & _UTF8:
            raise
        is_oem = system == _DOS or any(0x80 <= byte < 0xA0 for byte in written)
        return written.decode("cp437" if is_oem else "latin-1")


def _check_overlap(members: Sequence[_Member], start: int, budget: Budget) -> list[int]:
    """The end of each member. Members that share bytes would unpack to far more than the file can hold."""
    order = sorted(range(len(members)), key=lambda index: members[index].place)
    ends = [start] * len(members)
    for index, following in pairwise(order):
        ends[index] = members[following].place
    for member, end in zip(members, ends, strict=True):
        if member.place + _LOCAL.size + member.packed > end:
            raise budget.refusal("its members overlap")
    return ends


# ---------------------------------------------------------------- a member


def _blocks(raw: BinaryIO, member: _Member, end: int, budget: Budget) -> Iterator[bytes]:
    """A member's content. Never more bytes are produced than its size says and the budget allows."""
    left = _seek_content(raw, member, end, budget)
    inflater = METHODS[member.method](member.size)
    size, checksum = 0, 0
    while not inflater.eof:
        data = raw.read(min(_STEP, left)) if inflater.needs_input else b""
        left -= len(data)
        try:
            # One byte beyond shows that the declared size is wrong.
            block = inflater.decompress(data, min(BLOCK, member.size - size + 1))
        except BadValue as error:
            raise budget.refusal(f"{member.name!r}: {error}") from None
        if not block and not data:
            break
        size += len(block)
        if size > member.size:
            raise budget.refusal(f"{member.name!r} has more than the {member.size:,} bytes that it declares")
        budget.content(len(block))
        checksum = zlib.crc32(block, checksum)
        yield block
    if size == member.size and checksum != member.checksum:
        raise zipfile.BadZipFile(f"the checksum of {member.name!r} is wrong")


def _seek_content(raw: BinaryIO, member: _Member, end: int, budget: Budget) -> int:
    """Seek to the start of a member's content. Returns the number of its compressed bytes."""
    raw.seek(member.place)
    mark, *_, name_bytes, extra_bytes = _LOCAL.unpack(raw.read(_LOCAL.size))
    if mark != b"PK\3\4":
        raise zipfile.BadZipFile(f"the header of {member.name!r} is damaged")
    if raw.seek(name_bytes + extra_bytes, os.SEEK_CUR) + member.packed > end:
        raise budget.refusal("its members overlap")
    return member.packed
