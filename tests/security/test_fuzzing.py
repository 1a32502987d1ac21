"""Every parser of untrusted input, called with random bytes and with damaged valid input.

Each parser either accepts its input or raises an error that its callers handle, with little memory. `make test` tries a
few inputs that are the same in each run; `make torture` tries many different ones.
"""

from __future__ import annotations

import gzip
import json
import os
import resource
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kazoo.exceptions import NoNodeError

from headgate.cli.ingest.item_command import read_changes
from headgate.cli.ledger.definitions import read_pipeline
from headgate.core.access import scopes
from headgate.core.errors import HeadgateError
from headgate.core.jumps import Jump
from headgate.core.ledger import ranges
from headgate.core.values import documents
from headgate.core.values.durations import parse_duration
from headgate.core.values.redaction import mask, redact, shown
from headgate.core.values.sizes import parse_size
from headgate.http.port.server import parse_address
from headgate.ingest.containers.budget import ContainerLimits
from headgate.ingest.containers.members import unpack
from headgate.ingest.formats import anvl, ark, manifest
from headgate.ingest.formats import descriptions as describe
from headgate.ingest.profiles import profile
from headgate.ingest.steps import system_files
from headgate.ingest.steps.new_jobs import BATCHES, OBJECT_LAYOUTS
from headgate.ingest.storage import ocfl_inventory
from headgate.ingest.validation.findings import Findings
from headgate.ingest.validation.inventories import check_inventory
from headgate.settings import load
from headgate.store_opening import kind_of, origin_of
from headgate.stores.archive.file import FORMAT, KIND, ArchiveSource, Checksum
from headgate.stores.ports.moving import Contents
from headgate.stores.zookeeper import address, opening
from headgate.stores.zookeeper.locks import records
from headgate.stores.zookeeper.queue import records as queue_records
from headgate.stores.zookeeper.queue.spellings import SPELLINGS
from headgate.stores.zookeeper.queue.tree import Unreadable
from tests.ingest.test_container import FILES, PACK, zip_of

FULL = os.environ.get("HEADGATE_TORTURE") == "full"
EXAMPLES = 2000 if FULL else 20
#: Address space that a parser may use in addition to that of the process.
MEMORY = 192 << 20
#: Text that has a meaning for one of the parsers.
TOKENS = [
    b"\0", b"\n", b"\r", b"\xff", b"|", b"%", b"%7c", b"#%eof", b"#%profile | ", b":", b";", b"/", b"..", b"{", b"[",
    b'"', b"\\u0000", b"\\ud800", b"<!DOCTYPE x>", b"&x;", b"</", b"]]>", b"PK\1\2", b"PK\5\6", b"PK\6\6", b"ustar\0",
    b"1e999", b"-1", b"99999999999999999999", b"@", b"?", b"=", b"'", b"\xe2\x80\xae", b"\xf0\x9f\x98\x80", b"NaN",
    b"GNU.sparse.map", b"9" * 5000,
]  # fmt: skip


class Parser(NamedTuple):
    """The function that reads an input (with a folder if needed), valid inputs, and errors that its callers handle."""

    read: Callable[[bytes, Path], object]
    seeds: list[bytes]
    refusals: tuple[type[Exception], ...] = ()


def text(read: Callable[[str], object]) -> Callable[[bytes, Path], object]:
    return lambda data, _folder: read(data.decode(errors="replace"))


def plain(read: Callable[[bytes], object]) -> Callable[[bytes, Path], object]:
    return lambda data, _folder: read(data)


def in_file(read: Callable[[Path], object], name: str) -> Callable[[bytes, Path], object]:
    def write_and_read(data: bytes, folder: Path) -> object:
        (folder / name).write_bytes(data)
        return read(folder / name)

    return write_and_read


def container(kind: str) -> Parser:
    def unpacked(archive: Path) -> None:
        folder = archive.with_name("out")
        try:
            unpack(archive, kind, folder, limits=ContainerLimits(files=100, total_bytes=1 << 20))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    seeds = [PACK[kind](FILES)]
    if kind == "zip":
        seeds += [zip_of(FILES, method) for method in (0, 12, 14)]
    return Parser(in_file(unpacked, "given"), seeds)


def read_foreign_inventory(data: bytes) -> object:
    """It refuses nothing: every mistake is a finding."""
    return check_inventory(data, "inventory.json", Findings())


def read_settings(file: Path) -> None:
    for setting in load({}, {}, file.parent).all():
        load({}, {}, file.parent).value(setting.known.name)


ARCHIVE = Contents("0001", "ab12", 1, 1, 5, {"bid": 1, "jid": 2}, Jump(0, 0), {"a": "b"}, {"t": ["c"]}, {"t": 1})


def read_archive(file: Path) -> None:
    ArchiveSource(file, lambda contents: dict.fromkeys(contents.tables, lambda _row: ""))


def read_archive_of_lines(data: bytes, folder: Path) -> None:
    (folder / "archive").write_bytes(archive(data))
    read_archive(folder / "archive")


def archive_lines() -> bytes:
    head = {"headgate": KIND, "format": FORMAT, **asdict(ARCHIVE)}
    return b"".join(json.dumps(each).encode() + b"\n" for each in (head, {"table": "t"}, ["value"]))


def archive(lines: bytes) -> bytes:
    """With a valid checksum over these lines, so that their content is checked."""
    total = Checksum()
    for line in lines.splitlines(keepends=True):
        total.add(line)
    return gzip.compress(lines + total.last_line(), 1, mtime=0)


def read_node(spelling: str) -> Callable[[bytes, Path], object]:
    """A job's nodes, one per line."""

    def read(data: bytes, _folder: Path) -> object:
        taking, *nodes = [*data.split(b"\n", 5), *[b""] * 5][:6]
        stat = SimpleNamespace(version=1)
        tree = SPELLINGS[spelling]("/x")
        status, configuration, identifiers, priority, space = nodes
        more = [b'{"max_crashes":1}', status, identifiers, priority, space, configuration]
        others = [configuration] * (len(tree.documents) - 1)
        answers = [None, NoNodeError(), *((node, stat) for node in (taking, *more, *others, b"bid0000000001"))]
        asked = queue_records.ask_job(tree, "jid0000000001")
        return queue_records.read_job(tree, "jid0000000001", answers[: len(asked)])

    return read


ADDRESS = address.parse("zookeeper://h:2181/x")
AT = b'"last_modification_date":"2026-01-01T00:00:00Z","last_modified":"2026-01-01T00:00:00Z"'
NODE = b"\n".join([
    b'{"crashes":1,"state":"pending","version":1}',
    b'{"status":"%s","last_successful_status":null,"retry_count":0,' + AT + b"}",
    b'{"batch_id":"bid0000000001","profile_name":"p","submitter":"s","payload_url":"u","payload_type":"file"}',
    b'{"primary_id":"","local_id":[]}', b"05", b"0",
])  # fmt: skip
STATE = records.State("file:///a", 7, (), waiting=False, known=True)
DUBLIN_CORE = describe.write_dublin_core({"title": ["T"], "creator": ["A", "B"]})
ROW = b"http://h/a | md5 | 0b21c6d48e815dd537d42dc1cfac0111 | 4 | 2026-01-01 | a.txt"
PROFILE = b'collection = "c"\nowner = "ark:/13030/j2-owner"\n[limits]\nfiles = 3\nobject_size = "1GB"\n'
PIPELINE = b'[dataset.a]\nuri = "file:///a"\n[dataset.b]\n[job.j]\ninputs = ["a"]\noutputs = ["b"]\nmax_attempts = 3\n'
SETTINGS = b'url = "sqlite:///x.db"\nanswer_within = "2s"\nbody_limit = 1000\n'
URLS = [
    b"http://user:pw@h:80/p?q#f",
    b"s3://b/k",
    b"file:///a",
    b"https://[::1]:8443/",
    b"zookeeper://h:2181,i/x?spelling=design",
]
INVENTORY = (
    b'{"id":"a","head":"v1","digestAlgorithm":"sha512","manifest":{},"versions":{"v1":{"created":"x","state":{}}}}'
)

FOREIGN_INVENTORY = (
    b'{"id":"info:a","type":"https://ocfl.io/1.0/spec/#inventory","head":"v01","digestAlgorithm":"sha256",'
    b'"contentDirectory":"data","manifest":{"' + b"a" * 64 + b'":["v01/data/a.txt"]},"fixity":{"md5":{"'
    + b"b" * 32 + b'":["v01/data/a.txt"]}},"versions":{"v01":{"created":"2026-11-18T08:00:00Z","message":"m",'
    b'"user":{"name":"n"},"state":{"' + b"a" * 64 + b'":["a.txt"]}}}}'
)  # fmt: skip

PARSERS: dict[str, Parser] = {
    "object manifest": Parser(plain(lambda data: manifest.parse(data, OBJECT_LAYOUTS)), [ROW + b"\n#%eof"]),
    "batch manifest": Parser(
        plain(lambda data: manifest.parse(data, BATCHES["batch-manifest"])),
        [manifest.write(manifest.BATCH, [manifest.ManifestEntry("http://h/a", "a", local=("l", "m"), title="t")])],
    ),
    "ANVL": Parser(text(anvl.read_unique), [b"a: b\n c\n# d\ne%41: f%0A\n"]),
    "ERC": Parser(text(describe.read_erc), [b"erc:\nwho: A\nwhat: B\nwhere: ark:/13030/m5br8stc\nwhere: l1; l2\n"]),
    "embargo": Parser(text(system_files.read_embargo), [b"embargoEndDate: 2026-01-01T00:00:00Z\n"]),
    "deletions": Parser(text(system_files.read_deletions), [b"a.txt\nb/c.txt\n"]),
    "ARK": Parser(text(ark.parse_object), [b"ark:/13030/m5br8stc", b"ark:99999/fk4-x"]),
    "Dublin Core": Parser(plain(describe.read_dublin_core), [DUBLIN_CORE]),
    "DataCite": Parser(plain(describe.read_datacite), [b'<r xmlns="x"><title>T</title></r>']),
    "zip": container("zip"),
    "tar": container("tar"),
    "tar.gz": container("tar.gz"),
    "tar.bz2": container("tar.bz2"),
    "profile": Parser(in_file(profile.load_profile, "p.toml"), [PROFILE]),
    "pipeline": Parser(in_file(read_pipeline, "pipeline.toml"), [PIPELINE]),
    "settings": Parser(in_file(read_settings, "headgate.toml"), [SETTINGS]),
    "duration": Parser(text(parse_duration), [b"30", b"1.5h", b"-2d", b"1e3s"], (ValueError,)),
    "size": Parser(text(parse_size), [b"512 MiB", b"10GB", b"1e3"], (ValueError,)),
    "range": Parser(text(ranges.expand), [b"1..1000", b"2024-01-01..2026-10-31", b"001..100"]),
    "scope": Parser(text(scopes.check_scope), [b"read", b"lock:acquire:file:///a", b"queue:submit:p"]),
    "URL of a payload": Parser(text(manifest.check_url), URLS),
    "URL that is shown": Parser(text(lambda url: (mask(url), shown(url), redact(url))), URLS),
    "URL of a service": Parser(text(lambda url: (kind_of(url), origin_of(url))), URLS),
    "URL of ZooKeeper": Parser(text(address.parse), URLS),
    "address to listen at": Parser(text(parse_address), [b"127.0.0.1:8750", b"[::1]:80"]),
    "backup archive": Parser(in_file(read_archive, "archive"), [archive(archive_lines())]),
    "lines of a backup": Parser(read_archive_of_lines, [archive_lines()]),
    "JSON body": Parser(plain(documents.read_foreign), [b'{"a": [1, 2.5, {"b": "\\u00fc"}]}'], (ValueError,)),
    "output of a command": Parser(text(read_changes), [b'working\n{"message": "m", "priority": 3}\n']),
    "OCFL inventory": Parser(plain(lambda data: ocfl_inventory.read_unsealed(data, "a")), [INVENTORY]),
    "inventory of another tool": Parser(plain(read_foreign_inventory), [INVENTORY, FOREIGN_INVENTORY]),
    "node of a lock": Parser(plain(lambda data: records.decode_state(data, "/a")), [STATE.encode()]),
    "node of the root": Parser(plain(lambda data: opening.read_root(data, ADDRESS)), [opening.RootNode("ab12").data()]),
    "nodes of a job": Parser(read_node("design"), [NODE % b"pending"], (Unreadable,)),
    "nodes of a Merritt job": Parser(read_node("mrt-zk"), [NODE % b"Pending"], (Unreadable,)),
}  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn, seeds: list[bytes]) -> bytes:
    """A valid input with some places changed, removed, repeated, or replaced by text that has a meaning."""
    data = draw(st.sampled_from(seeds))
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 16)))
        repeated = data[start:end] * draw(st.integers(0, 3000))
        part = draw(st.one_of(st.sampled_from(TOKENS), st.binary(max_size=8), st.just(repeated)))
        data = data[:start] + part + data[draw(st.sampled_from([start, end])) :]
    return data


@pytest.mark.timeout(1200 if FULL else 60)
@pytest.mark.parametrize("name", PARSERS)
def test_any_input_is_accepted_or_refused_with_little_memory(name: str, tmp_path: Path) -> None:
    parser = PARSERS[name]
    refusals: tuple[type[Exception], ...] = (HeadgateError, *parser.refusals)
    for seed in [] if name.startswith("URL") else parser.seeds:  # These are shared by parsers of several kinds.
        parser.read(seed, tmp_path)

    @settings(max_examples=EXAMPLES, derandomize=not FULL, database=None, suppress_health_check=list(HealthCheck))
    @given(st.one_of(damaged(parser.seeds), st.binary(max_size=300)))
    def feed(data: bytes) -> None:
        with suppress(*refusals):
            parser.read(data, tmp_path)

    with little_memory():
        feed()


@contextmanager
def little_memory() -> Iterator[None]:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
