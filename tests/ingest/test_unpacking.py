"""Containers that expand without bound are refused by a confined child process, and the service survives."""

from __future__ import annotations

import bz2
import gzip
import io
import os
import signal
import struct
import tarfile
import threading
import tracemalloc
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from headgate.core.errors import BadPayload, WorkStopped
from headgate.ingest.containers.budget import ContainerLimits
from headgate.ingest.containers.members import unpack
from headgate.ingest.containers.unpacking import Confinement, unpack_confined
from tests.ingest.test_container import FILES, PACK, tar_of, zip_of

#: Far more than may be in memory at once.
HUGE = 24 << 20
#: Bytes of Python objects that unpacking may use in any case.
MOST_MEMORY = 8 << 20
ZEROS = bytes(1 << 20)


def lying_zip(method: int) -> bytes:
    """A zip with one member whose declared size is too small."""
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", method) as packed, packed.open("a", "w", force_zip64=False) as member:
        for _ in range(HUGE >> 20):
            member.write(ZEROS)
    return raw.getvalue().replace(struct.pack("<L", HUGE), struct.pack("<L", 1000))


def patched_zip(method: int = 8, flags: int = 0, size: int | None = None) -> bytes:
    """A zip whose directory gives its one member another method, flags and size."""
    raw = bytearray(zip_of({"a": b"some content"}))
    place = raw.index(b"PK\1\2")
    struct.pack_into("<HH", raw, place + 8, flags, method)
    if size is not None:
        struct.pack_into("<L", raw, place + 24, size)
    return bytes(raw)


def large_dictionary() -> bytes:
    """An LZMA member of a few bytes that asks for a dictionary of 2 GB."""
    raw = bytearray(zip_of({"a": b"some content"}, zipfile.ZIP_LZMA))
    place = raw.index(b"PK\1\2")
    struct.pack_into("<L", raw, place + 24, 2_000_000_000)
    struct.pack_into("<L", raw, 31 + 5, 2_000_000_000)
    return bytes(raw)


def long_list() -> bytes:
    """A zip whose directory claims 5 members, and has 300,000."""
    one = zip_of({"a": b""})
    start, end = one.index(b"PK\1\2"), one.index(b"PK\5\6")
    entries = one[start:end] * 300_000
    return one[:start] + entries + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 5, 5, len(entries), start, 0)


def pax_tar(headers: dict[str, str], body: bytes) -> bytes:
    info = tarfile.TarInfo("a")
    info.size, info.pax_headers = len(body), headers
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as packed:
        packed.addfile(info, io.BytesIO(body))
    return raw.getvalue()


def pax_sparse(version: str) -> bytes:
    """A tar whose header lists far more sparse segments than fit into memory."""
    named = {"GNU.sparse.major": version[0], "GNU.sparse.minor": version[2], "GNU.sparse.realsize": "1"}
    if version == "1.0":
        body = b"1000000\n" + b"0\n1\n" * 1_000_000
        return gzip.compress(pax_tar(named, body + bytes(-len(body) % 512)))
    pieces = "0,1," * 200_000
    return gzip.compress(pax_tar({**named, "GNU.sparse.map": pieces}, b""))


def gnu_sparse() -> bytes:
    """The older form: a chain of blocks that list segments."""
    head = tarfile.TarInfo("a")
    head.type = tarfile.GNUTYPE_SPARSE
    block = bytearray(head.tobuf(tarfile.GNU_FORMAT))
    block[482] = 1
    block[148:156] = b" " * 8
    block[148:156] = f"{sum(block):06o}\0 ".encode()
    more = (b"00000000000\0" + b"00000000001\0") * 21 + b"\1" + bytes(7)
    return gzip.compress(bytes(block) + more * 20_000)


def chained_headers() -> bytes:
    """Long names for one member, one after another."""
    head = tarfile.TarInfo("a")
    head.type, head.size = tarfile.GNUTYPE_LONGNAME, len(ZEROS)
    return gzip.compress((head.tobuf(tarfile.GNU_FORMAT) + b"x" * len(ZEROS)) * 2) * 120


def deep_names() -> bytes:
    """Each file asks for 400 folders of its own."""
    return gzip.compress(tar_of({f"{number}/" + "d/" * 400 + "f": b"" for number in range(10)}))


def much_of_nothing(squeeze: Callable[[bytes], bytes]) -> bytes:
    """A member of 10 GB of zeros, in streams that each unpack to 16 MB."""
    head = tarfile.TarInfo("zeros")
    head.size = 10 << 30
    return squeeze(head.tobuf(tarfile.GNU_FORMAT)) + squeeze(ZEROS * 16) * 640


class Bomb(NamedTuple):
    kind: str
    make: Callable[[], bytes]
    why: str


#: The refused containers, and the reasons.
BOMBS: dict[str, Bomb] = {
    "a Deflate member larger than it says": Bomb("zip", lambda: lying_zip(zipfile.ZIP_DEFLATED), "than the 1,000 b"),
    "a bzip2 member larger than it says": Bomb("zip", lambda: lying_zip(zipfile.ZIP_BZIP2), "than the 1,000 bytes"),
    "an LZMA member larger than it says": Bomb("zip", lambda: lying_zip(zipfile.ZIP_LZMA), "than the 1,000 bytes"),
    "an LZMA member with a huge dictionary": Bomb("zip", large_dictionary, "dictionary|times its size"),
    "a member that says 4 GB": Bomb("zip", lambda: patched_zip(size=4_000_000_000), "times its size"),
    "Deflate64": Bomb("zip", lambda: patched_zip(9), "compressed with Deflate64"),
    "Zstandard": Bomb("zip", lambda: patched_zip(93), "compressed with Zstandard"),
    "XZ": Bomb("zip", lambda: patched_zip(95), "compressed with XZ"),
    "a method of tomorrow": Bomb("zip", lambda: patched_zip(77), "compressed with method 77"),
    "AES": Bomb("zip", lambda: patched_zip(99), "is encrypted"),
    "strong encryption": Bomb("zip", lambda: patched_zip(flags=0x40), "is encrypted"),
    "a long list of members": Bomb("zip", long_list, "more than 1,000 files"),
    "a sparse tar, pax 1.0": Bomb("tar.gz", lambda: pax_sparse("1.0"), "sparse"),
    "a sparse tar, pax 0.1": Bomb("tar.gz", lambda: pax_sparse("0.1"), "sparse|header of a member"),
    "a sparse tar, GNU": Bomb("tar.gz", gnu_sparse, "sparse"),
    "a chain of headers": Bomb("tar.gz", chained_headers, "headers and padding|times its size"),
    "a file with many folders": Bomb("tar.gz", deep_names, "folders"),
    "10 GB of zeros, gzip": Bomb("tar.gz", lambda: much_of_nothing(gzip.compress), "times its size"),
    "10 GB of zeros in one file, gzip": Bomb("gz", lambda: gzip.compress(ZEROS * 16) * 640, "times its size"),
    "10 GB of zeros in one file, bzip2": Bomb("bz2", lambda: bz2.compress(ZEROS * 16) * 640, "times its size"),
    "10 GB of zeros, bzip2": Bomb("tar.bz2", lambda: much_of_nothing(bz2.compress), "times its size"),
}
LIMITS = ContainerLimits(files=1000)


@pytest.mark.parametrize("what", BOMBS)
def test_a_bomb_is_refused_within_a_few_megabytes(tmp_path: Path, what: str) -> None:
    bomb = BOMBS[what]
    archive = tmp_path / f"bomb.{bomb.kind}"
    archive.write_bytes(bomb.make())
    tracemalloc.start()
    try:
        with pytest.raises(BadPayload, match=bomb.why):
            unpack(archive, bomb.kind, tmp_path / "out", limits=LIMITS)
        assert tracemalloc.get_traced_memory()[1] < MOST_MEMORY
    finally:
        tracemalloc.stop()
    assert list(tmp_path.iterdir()) == [archive]


def test_an_lzma_member_gets_the_dictionary_that_it_needs(tmp_path: Path) -> None:
    """The largest that a writer may declare, for far smaller content."""
    raw = bytearray(zip_of({"a": b"some content"}, zipfile.ZIP_LZMA))
    struct.pack_into("<L", raw, 31 + 5, 0xFFFFFFFF)
    archive = tmp_path / "given.zip"
    archive.write_bytes(raw)
    unpack(archive, "zip", tmp_path / "out")
    assert (tmp_path / "out" / "a").read_bytes() == b"some content"


# ---------------------------------------------------------------- the confined process


def test_a_child_that_exceeds_its_memory_reports_it(tmp_path: Path) -> None:
    archive = tmp_path / "given.tar"
    archive.write_bytes(tar_of({"a": ZEROS * 2}))
    with pytest.raises(BadPayload, match="needs more memory than is allowed"):
        unpack_confined(archive, "tar", tmp_path / "out", limits=LIMITS, confinement=Confinement(memory=1 << 20))
    assert list(tmp_path.iterdir()) == [archive]


def test_a_profile_that_allows_more_files_allows_memory_for_their_names(tmp_path: Path) -> None:
    """A child process with no limit of its own lists as many as the profile allows, and uses no more memory."""
    archive = tmp_path / "given.tar"
    archive.write_bytes(tar_of({f"{n:0200}": b"" for n in range(500)}))
    least = Confinement(memory=1 << 20)
    more = replace(LIMITS, files=ContainerLimits().files + 100_000)
    assert len(unpack_confined(archive, "tar", tmp_path / "out", limits=more, confinement=least)) == 500


def test_a_child_that_is_killed_is_reported(tmp_path: Path) -> None:
    """As the system does when memory runs out."""
    archive = tmp_path / "given.tar"
    os.mkfifo(archive)
    killer = threading.Thread(target=kill_reader_of, args=(archive,))
    killer.start()
    with pytest.raises(BadPayload, match="SIGKILL"):
        unpack_confined(archive, "tar", tmp_path / "out", limits=LIMITS)
    killer.join()
    assert list(tmp_path.iterdir()) == [archive]


def kill_reader_of(pipe: Path) -> None:
    """Wait until a child of this process reads the pipe, and kill it."""
    with pipe.open("wb"):
        tasks = Path(f"/proc/{os.getpid()}/task").iterdir()
        children = [each for task in tasks for each in (task / "children").read_text().split()]
        (child,) = [each for each in children if "containers.unpacking" in Path(f"/proc/{each}/cmdline").read_text()]
        os.kill(int(child), signal.SIGKILL)


@pytest.mark.parametrize("kind", PACK)
def test_an_ordinary_container_is_unpacked_unchanged(tmp_path: Path, kind: str) -> None:
    archive = tmp_path / f"given.{kind}"
    archive.write_bytes(PACK[kind](FILES))
    members = unpack_confined(archive, kind, tmp_path / "out", limits=ContainerLimits())
    assert {each.name: (tmp_path / "out" / each.name).read_bytes() for each in members} == FILES


@pytest.mark.parametrize(("kind", "squeeze"), [("gz", gzip.compress), ("bz2", bz2.compress)])
def test_an_ordinary_file_is_unpacked_unchanged(tmp_path: Path, kind: str, squeeze: Callable[[bytes], bytes]) -> None:
    archive = tmp_path / f"table.csv.{kind}"
    archive.write_bytes(squeeze(b"a,b\n" * 1000))
    (member,) = unpack_confined(archive, kind, tmp_path / "out", limits=ContainerLimits())
    assert (member.name, (tmp_path / "out" / "table.csv").read_bytes()) == ("table.csv", b"a,b\n" * 1000)


def test_a_refusal_is_the_same_as_without_a_child(tmp_path: Path) -> None:
    archive = tmp_path / "given.zip"
    archive.write_bytes(b"noise")
    with pytest.raises(BadPayload, match="not a zip file") as caught:
        unpack_confined(archive, "zip", tmp_path / "out", limits=ContainerLimits())
    assert caught.value.what == "given.zip"


def test_processor_time_is_limited(tmp_path: Path) -> None:
    """10 GB of padding, which the test's own limits allow."""
    archive = tmp_path / "given.tar.bz2"
    archive.write_bytes(bz2.compress(tar_of(FILES)) + bz2.compress(ZEROS * 16) * 640)
    limits, confinement = ContainerLimits(files=10_000_000, ratio=1_000_000), Confinement(seconds=0)
    with pytest.raises(BadPayload, match="processor time"):
        unpack_confined(archive, "tar.bz2", tmp_path / "out", limits=limits, confinement=confinement)


def test_unpacking_in_a_child_stops_on_request(tmp_path: Path) -> None:
    archive = tmp_path / "given.zip"
    archive.write_bytes(zip_of(FILES))
    with pytest.raises(WorkStopped):
        unpack_confined(archive, "zip", tmp_path / "out", limits=ContainerLimits(), stop=lambda: True)
    assert list(tmp_path.iterdir()) == [archive]
