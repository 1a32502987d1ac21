"""Containers that expand without bound are refused by a confined process, and the service lives on."""

from __future__ import annotations

import bz2
import io
import resource
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from headgate.core.errors import BadPayload, WorkStopped
from headgate.ingest.container import Limits
from headgate.ingest.unpacking import Confinement, unpack_confined
from tests.ingest.test_container import FILES, PACK, zip_of

#: Far more than the child may use.
HUGE = 200 << 20
SMALL = Confinement(memory=160 << 20, seconds=20)


def lying_zip(method: int) -> bytes:
    """A zip whose one member says that it is small, and is not."""
    zeros = bytes(1 << 20)
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", method) as packed, packed.open("a", "w", force_zip64=False) as member:
        for _ in range(HUGE >> 20):
            member.write(zeros)
    return raw.getvalue().replace(struct.pack("<L", HUGE), struct.pack("<L", 1000))


def sparse_tar() -> bytes:
    """A tar whose header lists far more pieces of a sparse file than memory holds."""
    info = tarfile.TarInfo("a")
    pieces = "".join("0\n1\n" for _ in range(1_500_000))
    body = f"1500000\n{pieces}".encode()
    body += bytes(-len(body) % 512)
    info.size = len(body)
    info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "1"}
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as packed:
        packed.addfile(info, io.BytesIO(body))
    return bz2.compress(raw.getvalue())


BOMBS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "a zip with a bzip2 member": ("zip", lambda: lying_zip(zipfile.ZIP_BZIP2)),
    "a zip with an LZMA member": ("zip", lambda: lying_zip(zipfile.ZIP_LZMA)),
    "a sparse tar": ("tar.bz2", sparse_tar),
}


@pytest.mark.parametrize("what", BOMBS)
def test_a_bomb_is_refused_and_this_process_does_not_grow(tmp_path: Path, what: str) -> None:
    kind, make = BOMBS[what]
    archive = tmp_path / f"bomb.{kind}"
    archive.write_bytes(make())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(BadPayload):
        unpack_confined(archive, kind, tmp_path / "out", limits=Limits(), confinement=SMALL)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000, "kilobytes"
    assert list(tmp_path.iterdir()) == [archive]


@pytest.mark.parametrize("kind", PACK)
def test_an_honest_container_comes_out_as_it_is(tmp_path: Path, kind: str) -> None:
    archive = tmp_path / f"given.{kind}"
    archive.write_bytes(PACK[kind](FILES))
    members = unpack_confined(archive, kind, tmp_path / "out", limits=Limits())
    assert {each.name: (tmp_path / "out" / each.name).read_bytes() for each in members} == FILES


def test_a_refusal_says_the_same_as_without_a_child(tmp_path: Path) -> None:
    archive = tmp_path / "given.zip"
    archive.write_bytes(b"noise")
    with pytest.raises(BadPayload, match="no zip file") as caught:
        unpack_confined(archive, "zip", tmp_path / "out", limits=Limits())
    assert caught.value.what == "given.zip"


def test_processor_time_is_limited(tmp_path: Path) -> None:
    archive = tmp_path / "given.zip"
    archive.write_bytes(zip_of({f"{number}": b"x" * 100 for number in range(20_000)}))
    with pytest.raises(BadPayload, match="processor time"):
        unpack_confined(archive, "zip", tmp_path / "out", limits=Limits(), confinement=Confinement(seconds=0))


def test_unpacking_stops_when_it_should(tmp_path: Path) -> None:
    archive = tmp_path / "given.zip"
    archive.write_bytes(zip_of(FILES))
    with pytest.raises(WorkStopped):
        unpack_confined(archive, "zip", tmp_path / "out", limits=Limits(), stop=lambda: True)
    assert list(tmp_path.iterdir()) == [archive]
