"""Parsers of untrusted input: bounded memory, and time that grows linearly with the size."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from headgate.core.errors import Invalid
from headgate.core.values.durations import parse_duration
from headgate.core.values.redaction import mask
from headgate.ingest.formats import anvl, manifest
from headgate.ingest.formats import descriptions as describe
from headgate.ingest.formats.file_names import collisions
from headgate.ingest.steps import new_jobs as payload_types
from headgate.ingest.steps.system_files import read_deletions

DC = f'<d xmlns:d="{describe._DC}">'.encode()
MEGABYTE = 1 << 20


class Case(NamedTuple):
    """An input of about that many bytes, its parser, and how many megabytes the parser may use."""

    make: Callable[[int], bytes]
    read: Callable[[bytes], object]
    size: int
    megabytes: int = 64


def parse_object(data: bytes) -> object:
    return manifest.parse(data, payload_types.OBJECT_LAYOUTS, most=30_000)


def parse_batch(data: bytes) -> object:
    return manifest.parse(data, payload_types.BATCHES["batch-manifest"], most=10_000)


def repeated(unit: bytes, start: bytes = b"", end: bytes = b"") -> Callable[[int], bytes]:
    return lambda size: start + unit * (size // len(unit)) + end


def numbered(row: str, end: str = "#%eof") -> Callable[[int], bytes]:
    """Rows that differ by their number, which replaces `{}` in the row."""
    return lambda size: "".join([*(row.format(number) for number in range(size // len(row))), end]).encode()


def nested(size: int) -> bytes:
    """Nested elements of Dublin Core, as deep as the library allows, around one long text."""
    return DC + b"<d:title>" * 200 + b"x" * size + b"</d:title>" * 200 + b"</d>"


def many_values(size: int) -> bytes:
    number = size // 30
    return DC + b"".join(b"<d:identifier>%d</d:identifier>" % each for each in range(number)) + b"</d>"


def read_both_forms(data: bytes) -> object:
    found = describe.read_dublin_core(data)
    return found.changed(found)


def text(read: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda data: read(data.decode())


def parse_span(written: str) -> None:
    with suppress(ValueError):
        parse_duration(written)


def read_names(data: bytes) -> object:
    return list(collisions(data.decode().split("\n")))


DEEP = "{}/" + "d/" * 400 + "f"
LARGE, SMALL = 20_000_000, 4_900_000
CASES: dict[str, Case] = {
    "manifest of short rows": Case(repeated(b"a\n"), parse_object, LARGE),
    "manifest of good rows": Case(numbered("http://h/{}\n"), parse_object, SMALL),
    "manifest of deep names": Case(numbered(f"http://h/{{0}}|||||{DEEP.replace('{}', '{0}')}\n"), parse_object, SMALL),
    "manifest of empty lines": Case(repeated(b"\n"), parse_object, LARGE),
    "manifest of bars": Case(repeated(b"|"), parse_object, LARGE),
    "manifest of one wide line": Case(repeated(b"a", "\U0001f600".encode()), parse_object, LARGE, 96),
    "manifest of header lines": Case(repeated(b"#%profile | x\n"), parse_object, LARGE),
    "manifest after its end": Case(repeated(b"a\n", b"http://h/a\n#%eof\n"), parse_object, LARGE),
    "manifest of mistakes": Case(repeated(b"ftp://h/a?" + b"x" * 900 + b"\n"), parse_object, LARGE),
    "batch manifest": Case(numbered("http://h/{}|||||n|||c|t|d\n"), parse_batch, SMALL),
    "batch manifest of local ids": Case(repeated(b"http://h/a|||||n||" + b"i;" * 900 + b"\n"), parse_batch, SMALL),
    "batch manifest of long titles": Case(repeated(b"http://h/a|||||n||||" + b"t" * 9000 + b"\n"), parse_batch, LARGE),
    "ANVL of continued lines": Case(repeated(b" a\n", b"a: b\n"), text(anvl.read), 2_000_000, 128),
    "ANVL of short pairs": Case(repeated(b"a:\n"), text(anvl.read), SMALL),
    "ANVL of one label": Case(numbered("a{}:\n", "a0:\n"), text(anvl.read_unique), 45_000),
    "ERC of places": Case(repeated(b"where: a;b;c\n"), text(describe.read_erc), SMALL),
    "deletions": Case(numbered("{}\n"), text(read_deletions), 1_000_000),
    "deletions of mistakes": Case(repeated(b"/\n"), text(read_deletions), SMALL),
    "nested Dublin Core": Case(nested, describe.read_dublin_core, SMALL),
    "Dublin Core of empty elements": Case(repeated(b"<a/>", DC, b"</d>"), describe.read_dublin_core, SMALL),
    "Dublin Core of many values": Case(many_values, read_both_forms, 2_900_000),
    "Dublin Core of attributes": Case(
        lambda size: DC + b"<a " + b"".join(b"a%d='' " % each for each in range(size // 12)) + b"/></d>",
        describe.read_dublin_core, SMALL, 256,
    ),
    "DataCite": Case(repeated(b"<title>a</title>", b"<d>", b"</d>"), describe.read_datacite, 1_500_000),
    "duration": Case(repeated(b"9", end=b"x"), text(parse_span), 100_000),
    "URL of passwords": Case(repeated(b"password", b"http://h/?"), text(mask), 200_000),
    "URL of questions": Case(repeated(b"?", b"http://h/"), text(mask), 200_000),
    "names in many folders": Case(numbered(f"{DEEP}\n", "f"), read_names, LARGE, 128),
}  # fmt: skip


def test_memory_is_bounded() -> None:
    """One child process parses all of them, each with a limited amount of additional address space."""
    child = subprocess.run([sys.executable, "-m", __name__], capture_output=True, check=False, timeout=110)
    assert child.returncode == 0, child.stderr.decode()
    assert json.loads(child.stdout) == dict.fromkeys(CASES, "within")


def read_all_within_limits() -> dict[str, str]:
    resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
    return {name: outcome_within(case) for name, case in CASES.items()}


def outcome_within(case: Case) -> str:
    data = case.make(case.size)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + case.megabytes * MEGABYTE, resource.RLIM_INFINITY))
    try:
        case.read(data)
    except Invalid:
        pass
    except MemoryError:
        return "too much memory"
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return "within"


@pytest.mark.parametrize("name", CASES)
def test_time_grows_linearly_with_the_size(name: str) -> None:
    """Twelve times the input would take 144 times as long if the time grew quadratically."""
    case = CASES[name]
    small, large = case.make(5_000), case.make(60_000)
    assert seconds(case, large) < 60 * max(seconds(case, small), 0.001)


def seconds(case: Case, data: bytes) -> float:
    """The shorter of two runs, in processor time of this thread."""
    took = []
    for _ in range(2):
        began = time.thread_time()
        with suppress(Invalid):
            case.read(data)
        took.append(time.thread_time() - began)
    return min(took)


if __name__ == "__main__":
    json.dump(read_all_within_limits(), sys.stdout)
