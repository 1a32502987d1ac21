"""Untrusted containers: their content is unpacked, and nothing else happens."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import struct
import subprocess
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from headgate.core.errors import BadPayload, BadValue, WorkStopped
from headgate.ingest.containers.budget import ContainerLimits
from headgate.ingest.containers.members import KINDS, Member, kind_of, unpack
from headgate.ingest.safe_files import open_beneath

FILES = {"a.txt": b"a", "deep/er/b.bin": bytes(range(256)) * 20, "empty": b"", "ünï cödé.txt": b"u"}


def zip_of(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", method) as packed:
        for name, content in files.items():
            packed.writestr(name, content)
    return raw.getvalue()


def tar_of(files: dict[str, bytes], *more: tarfile.TarInfo) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as packed:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            packed.addfile(info, io.BytesIO(content))
        for info in more:
            packed.addfile(info)
    return raw.getvalue()


PACK: dict[str, Callable[[dict[str, bytes]], bytes]] = {
    "zip": zip_of,
    "tar": tar_of,
    "tar.gz": lambda files: gzip.compress(tar_of(files)),
    "tar.bz2": lambda files: bz2.compress(tar_of(files)),
}


class Case:
    """A container in its own folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.target = folder / "out"

    def unpack(self, raw: bytes, kind: str, limits: ContainerLimits | None = None) -> list[Member]:
        archive = self.folder / f"given.{kind}"
        archive.write_bytes(raw)
        return unpack(archive, kind, self.target, limits=limits or ContainerLimits())

    def refused(self, raw: bytes, kind: str, why: str, limits: ContainerLimits | None = None) -> None:
        with pytest.raises(BadPayload, match=why) as caught:
            self.unpack(raw, kind, limits)
        assert caught.value.what == f"given.{kind}"
        assert [each.name for each in self.folder.iterdir()] == [f"given.{kind}"]


@pytest.fixture
def case(tmp_path: Path) -> Case:
    (tmp_path / "box").mkdir()
    return Case(tmp_path / "box")


@pytest.mark.parametrize("kind", PACK)
def test_every_file_comes_out_with_its_digest(case: Case, kind: str) -> None:
    members = case.unpack(PACK[kind](FILES), kind)
    assert {each.name: each.digests["sha256"] for each in members} == {
        name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()
    }
    for name, content in FILES.items():
        assert (case.target / name).read_bytes() == content


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compression_methods_of_zip_are_recognised(case: Case, method: int) -> None:
    assert len(case.unpack(zip_of(FILES, method), "zip")) == len(FILES)


def test_the_kind_is_recognised_by_the_file_name() -> None:
    assert {kind_of(f"A{ending.upper()}") for ending in KINDS} == set(KINDS.values())
    assert kind_of("a.7z") == kind_of("zip") == ""
    with pytest.raises(BadValue, match="supported: "):
        unpack(Path("a.7z"), "7z", Path("out"))


@pytest.mark.parametrize("kind", PACK)
@pytest.mark.parametrize("name", ["../evil", "/evil", "a/../../evil", "C:evil", "a\\..\\evil", "a//b", "nul", "x\x01"])
def test_no_name_leads_out_of_the_folder(case: Case, kind: str, name: str) -> None:
    case.refused(PACK[kind]({"good": b"", name: b"x"}), kind, "file name")
    assert not (case.folder.parent / "evil").exists()


@pytest.mark.parametrize("kind", PACK)
@pytest.mark.parametrize("names", [("a", "a/b"), ("a/b", "a"), ("\u00e9", "e\u0301")])
def test_names_that_cannot_both_be_files_are_refused(case: Case, kind: str, names: tuple[str, str]) -> None:
    case.refused(PACK[kind](dict.fromkeys(names, b"x")), kind, "differs|at once|file and a folder")


@pytest.mark.parametrize("kind", PACK)
def test_names_that_differ_in_case_are_two_files(case: Case, kind: str) -> None:
    files = {"a": b"1", "A": b"2", "x/A": b"3", "X/a": b"4"}
    case.unpack(PACK[kind](files), kind)
    assert {name: (case.target / name).read_bytes() for name in files} == files


def test_names_that_the_work_folder_cannot_keep_apart_are_refused(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a file system that ignores case: the second spelling finds the first file."""

    def ignoring_case(root: Path, parts: Sequence[str], *more: Any) -> int:
        return open_beneath(root, [part.lower() for part in parts], *more)

    monkeypatch.setattr("headgate.ingest.containers.members.open_beneath", ignoring_case)
    why = "contains 'MAP.tif' and 'Map.tif', and the work folder does not keep such names apart; rename one"
    case.refused(zip_of({"Map.tif": b"", "MAP.tif": b""}), "zip", why)


SINGLE: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "bz2": bz2.compress}


@pytest.mark.parametrize("kind", SINGLE)
@pytest.mark.parametrize("content", [b"", b"a", bytes(range(256)) * 3000])
def test_a_single_file_comes_out_under_the_name_of_its_container(case: Case, kind: str, content: bytes) -> None:
    (member,) = case.unpack(SINGLE[kind](content), kind)
    assert (member.name, member.size) == ("given", len(content))
    assert member.digests["sha256"] == hashlib.sha256(content).hexdigest()
    assert (case.target / "given").read_bytes() == content


@pytest.mark.parametrize("kind", SINGLE)
def test_a_truncated_or_damaged_single_file_does_not_come_out(case: Case, kind: str) -> None:
    whole = SINGLE[kind](bytes(range(256)) * 9)
    for size in range(0, len(whole), 7):
        case.refused(whole[:size], kind, "damaged|truncated")
    middle = len(whole) - 12
    case.refused(whole[:middle] + bytes([whole[middle] ^ 0x10]) + whole[middle + 1 :], kind, "damaged|truncated")
    case.refused(b"noise" * 99, kind, f"damaged or not a {kind} file")


@pytest.mark.parametrize("kind", SINGLE)
def test_a_single_file_that_expands_too_much_is_refused(case: Case, kind: str) -> None:
    case.refused(SINGLE[kind](bytes(30 << 20)), kind, "100 times its size")
    limits = ContainerLimits(total_bytes=100)
    case.refused(SINGLE[kind](bytes(range(101))), kind, "unpacks to more than 100 bytes", limits)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.tarz", "tar.gz"), ("a.TGZ", "tar.gz"), ("a.tar.gz", "tar.gz"), ("a.tar.bz2", "tar.bz2"),
        ("a.csv.gz", "gz"), ("a.csv.BZ2", "bz2"),
    ],
)  # fmt: skip
def test_kinds_of_compressed_files(name: str, kind: str) -> None:
    assert kind_of(name) == kind


@pytest.mark.parametrize("name", [".gz", "..gz", ".bz2"])
def test_a_single_file_without_a_name_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(SINGLE[kind_of(name)](b"x"))
    with pytest.raises(BadPayload, match="file name"):
        unpack(tmp_path / name, kind_of(name), tmp_path / "out")


@pytest.mark.parametrize("kind", PACK)
def test_one_container_within_another_stays_packed(case: Case, kind: str) -> None:
    inner = PACK[kind](FILES)
    case.unpack(PACK[kind]({"inner." + kind: inner}), kind)
    assert (case.target / f"inner.{kind}").read_bytes() == inner


@pytest.mark.parametrize("kind", PACK)
def test_a_truncated_container_yields_no_files(case: Case, kind: str) -> None:
    whole = PACK[kind]({"a": b"a" * 600, "b": bytes(range(256)) * 9})
    if kind == "tar":
        whole = whole[: 512 + 1024 + 512 + 2560]  # without the padding, which no reader needs
    for size in {*range(0, len(whole), max(1, len(whole) // 40)), len(whole) - 1}:
        case.refused(whole[:size], kind, "damaged|truncated")


@pytest.mark.parametrize("kind", PACK)
def test_a_flipped_byte_of_content_is_detected_where_the_format_has_a_checksum(case: Case, kind: str) -> None:
    """A plain tar has no checksum of its content; all other kinds have one."""
    content = b"the content that is flipped"
    if kind in ("zip", "tar"):
        raw = zip_of({"a": content}, zipfile.ZIP_STORED) if kind == "zip" else tar_of({"a": content})
        raw = raw.replace(content, content.replace(b"that", b"tha7"))
    else:
        raw = PACK[kind]({"a": content})
        middle = len(raw) // 2
        raw = raw[:middle] + bytes([raw[middle] ^ 0x10]) + raw[middle + 1 :]
    if kind == "tar":
        assert len(case.unpack(raw, kind)) == 1
    else:
        case.refused(raw, kind, "damaged|truncated")


@pytest.mark.parametrize("kind", PACK)
def test_random_bytes_are_not_a_container(case: Case, kind: str) -> None:
    case.refused(b"\x1f\x8b\x08BZh9PK\x05\x06" * 300, kind, "damaged")


# ---------------------------------------------------------------- limits


@pytest.mark.parametrize("kind", PACK)
def test_too_many_files_are_refused(case: Case, kind: str) -> None:
    files = {f"{n}": b"" for n in range(11)}
    case.refused(PACK[kind](files), kind, "more than 10 files", ContainerLimits(files=10))


def test_folders_count_too(case: Case) -> None:
    folders = [tarfile.TarInfo(f"{n}") for n in range(20)]
    for each in folders:
        each.type = tarfile.DIRTYPE
    case.refused(tar_of({}, *folders), "tar", "more than 10 files", ContainerLimits(files=10))


@pytest.mark.parametrize("kind", PACK)
def test_too_many_bytes_are_refused(case: Case, kind: str) -> None:
    case.refused(PACK[kind](FILES), kind, "unpacks to more than 100 bytes", ContainerLimits(total_bytes=100))


@pytest.mark.parametrize("kind", ["zip", "tar.gz", "tar.bz2"])
def test_a_container_that_expands_too_much_is_refused(case: Case, kind: str) -> None:
    case.refused(PACK[kind]({"zeros": bytes(30 << 20)}), kind, "100 times its size")


def test_a_zip_with_false_sizes_is_refused_while_it_is_read(case: Case) -> None:
    raw = zip_of({"zeros": bytes(30 << 20)})
    lying = raw.replace(struct.pack("<L", 30 << 20), struct.pack("<L", 1000))
    assert lying != raw
    case.refused(lying, "zip", "more than the 1,000 bytes that it declares")


def test_members_that_overlap_are_refused(case: Case) -> None:
    """Every entry of the list points to the same bytes, as in the known bombs of that kind."""
    one = zip_of({"a": bytes(100_000)})
    place = one.index(b"PK\1\2")
    entry = one[place : one.index(b"PK\5\6")]
    entries = b"".join(entry[:46] + bytes([97 + n]) + entry[47:] for n in range(20))
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 20, 20, len(entries), place, 0)
    case.refused(one[:place] + entries + end, "zip", "overlap")


def test_a_list_of_members_that_would_fill_the_memory_is_not_read(case: Case) -> None:
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 5, 5, 3 << 30, 0, 0)
    case.refused(bytes(100) + end, "zip", "lists more than")
    large = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1 << 40, 1 << 40, 1 << 50, 0)
    place = struct.pack("<4sLQL", b"PK\6\7", 0, 100, 1)
    last = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    case.refused(bytes(100) + large + place + last, "zip", "lists more than")


def test_a_header_that_would_fill_the_memory_is_not_read(case: Case) -> None:
    """tarfile reads the extended header of a member at once, whatever size it announces."""
    notes = tarfile.TarInfo("notes")
    notes.type = tarfile.XHDTYPE
    notes.size = 1 << 33
    raw = notes.tobuf(tarfile.GNU_FORMAT) + bytes(4096)
    case.refused(gzip.compress(raw), "tar.gz", "header of a member")


# ---------------------------------------------------------------- not regular files


@pytest.mark.parametrize(
    "kind",
    [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.GNUTYPE_SPARSE],
)
def test_a_tar_with_anything_but_files_and_folders_is_refused(case: Case, kind: bytes) -> None:
    link = tarfile.TarInfo("link")
    link.type, link.linkname = kind, "/etc"
    case.refused(tar_of({}, link), "tar", "only regular files|damaged")


def test_a_link_and_a_file_through_it_write_nothing_outside(case: Case) -> None:
    """As in CVE-2025-4517: folders with long names, links through them, and a file at their end."""
    deep = "/".join(["d" * 240] * 3)
    links = [tarfile.TarInfo(f"{deep}/l{n}") for n in range(3)]
    for each in links:
        each.type, each.linkname = tarfile.SYMTYPE, "../" * 20
    case.refused(tar_of({f"{deep}/ok": b""}, *links, tarfile.TarInfo(f"{deep}/l0/evil")), "tar", "only regular files")


def test_a_zip_with_a_link_is_refused(case: Case) -> None:
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as packed:
        info = zipfile.ZipInfo("link")
        info.create_system, info.external_attr = 3, 0o120777 << 16
        packed.writestr(info, "/etc/passwd")
    case.refused(raw.getvalue(), "zip", "only regular files")


def test_an_encrypted_zip_is_refused(case: Case) -> None:
    raw = bytearray(zip_of({"a": b"secret"}))
    raw[raw.index(b"PK\1\2") + 8] |= 1
    case.refused(bytes(raw), "zip", "encrypted")


# ---------------------------------------------------------------- names, stops


@pytest.mark.parametrize(("written", "name"), [("é.txt".encode(), "é.txt"), ("é.txt".encode("latin-1"), "é.txt")])
def test_names_in_a_zip_without_the_utf8_flag_are_read_as_written(case: Case, written: bytes, name: str) -> None:
    stand_in = b"~" * len(written)
    raw = zip_of({stand_in.decode(): b"x"}).replace(stand_in, written)
    assert [each.name for each in case.unpack(raw, "zip")] == [name]


@pytest.mark.parametrize(
    ("written", "system", "name"),
    [("Müll.txt".encode("cp437"), 0, "Müll.txt"), ("ñ.txt".encode("cp437"), 0, "ñ.txt"), (b"\x81.txt", 3, "ü.txt")],
)
def test_names_in_a_zip_from_windows_are_read_in_its_encoding(
    case: Case, written: bytes, system: int, name: str
) -> None:
    info = zipfile.ZipInfo("~" * len(written))
    info.create_system = system
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as packed:
        packed.writestr(info, b"x")
    assert [each.name for each in case.unpack(raw.getvalue().replace(b"~" * len(written), written), "zip")] == [name]


@pytest.mark.parametrize(("crc", "name"), [(zlib.crc32(b"plain.txt"), "日本.txt"), (1, "plain.txt")])
def test_an_additional_utf8_name_counts_if_it_belongs_to_the_plain_name(case: Case, crc: int, name: str) -> None:
    info, spelt = zipfile.ZipInfo("plain.txt"), "日本.txt".encode()
    info.extra = struct.pack("<HHBL", 0x7075, 5 + len(spelt), 1, crc) + spelt
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as packed:
        packed.writestr(info, b"x")
    assert [each.name for each in case.unpack(raw.getvalue(), "zip")] == [name]


@pytest.mark.parametrize("more", [["--label=harbour"], ["--incremental"], ["--format=pax"], ["-b", "1"]])
def test_archives_written_by_tar_are_unpacked_completely(case: Case, tmp_path: Path, more: list[str]) -> None:
    """Volume labels and lists of incremental backups are left out; all files are there."""
    for name, content in FILES.items():
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_bytes(content)
    made = subprocess.run(["tar", *more, "-C", tmp_path / "in", "-cf", "-", "."], check=True, capture_output=True)
    assert {each.name: each.size for each in case.unpack(made.stdout, "tar")} == {
        name: len(content) for name, content in FILES.items()
    }


@pytest.mark.parametrize("kind", PACK)
def test_names_may_begin_with_the_packed_folder(case: Case, kind: str) -> None:
    assert [each.name for each in case.unpack(PACK[kind]({"./a": b"1", "./b/c": b"2"}), kind)] == ["a", "b/c"]


def test_unpacking_stops_on_request(case: Case) -> None:
    archive = case.folder / "given.zip"
    archive.write_bytes(zip_of(FILES))
    with pytest.raises(WorkStopped):
        unpack(archive, "zip", case.target, stop=lambda: True)
    assert not case.target.exists()


def test_leftovers_of_an_earlier_attempt_are_removed(case: Case) -> None:
    left = case.folder / "out.unpacking"
    left.mkdir()
    (left / "half").write_bytes(b"half")
    case.unpack(zip_of(FILES), "zip")
    assert not left.exists()
    assert not (case.target / "half").exists()
