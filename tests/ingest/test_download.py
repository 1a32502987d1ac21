"""Downloads are complete and checked, or absent; they are resumed after any failure."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import random
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from headgate.core.errors import WorkStopped
from headgate.ingest.retries import Retries
from headgate.ingest.sources.download import DownloadOptions, DownloadOutcome, Wanted, download
from headgate.ingest.sources.fetch import Fetcher
from headgate.ingest.sources.guard import Rules
from tests.ingest import origin as acts
from tests.ingest.origin import Origin

#: Larger than one read of the client.
CONTENT = random.Random(5).randbytes(300_000)
HURRY = DownloadOptions(threads=4, retries=Retries(3, 0.001, 0.002))

Run = Callable[..., DownloadOutcome]


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def run(fetcher: Fetcher, tmp_path: Path) -> Run:
    """Download into this test's folder."""

    def run(*wanted: Wanted, **more: object) -> DownloadOutcome:
        return download(fetcher, wanted, tmp_path / "files", tmp_path / "parts", options=HURRY, **more)  # type: ignore[arg-type]

    return run


def test_files_are_complete_with_every_digest_in_one_pass(run: Run, origin: Origin, tmp_path: Path) -> None:
    wanted = [
        Wanted(origin.add("/a", CONTENT), "a.bin", len(CONTENT), {"SHA-256": sha256(CONTENT).upper()}),
        Wanted(origin.add("/b", b"bee"), "deep/er/b.txt", None, {"md5": hashlib.md5(b"bee").hexdigest()}),  # noqa: S324
        Wanted(origin.add("/c", b""), "empty", 0, {"crc32": "00000000", "adler32": "00000001"}),
    ]
    sizes: list[int] = []
    outcome = run(*wanted, progress=sizes.append)
    assert outcome.failed == ()
    assert [each.name for each in outcome.fetched] == ["a.bin", "deep/er/b.txt", "empty"]
    assert (tmp_path / "files/a.bin").read_bytes() == CONTENT
    assert (tmp_path / "files/deep/er/b.txt").read_bytes() == b"bee"
    assert outcome.fetched[1].digests == {"md5": hashlib.md5(b"bee").hexdigest(), "sha256": sha256(b"bee")}  # noqa: S324
    assert sum(sizes) == outcome.size == len(CONTENT) + 3


@pytest.mark.parametrize("places", [(1,), (100_000, 250_000), (len(CONTENT) - 1,)])
def test_an_interrupted_download_is_continued(run: Run, origin: Origin, places: tuple[int, ...]) -> None:
    url = origin.add("/a", CONTENT, *map(acts.cut_at, places))
    outcome = run(Wanted(url, "a.bin", digests={"sha256": sha256(CONTENT)}))
    assert outcome.failed == ()
    ranges = [each.headers.get("Range", "") for each in origin.asked("/a")]
    assert ranges == ["", *(f"bytes={place}-" for place in places)]


def test_a_reset_before_the_first_byte_and_a_busy_server_are_retried(run: Run, origin: Origin) -> None:
    url = origin.add("/a", CONTENT, acts.reset, acts.status(503, Retry_After="1"))
    assert run(Wanted(url, "a.bin")).failed == ()
    assert len(origin.asked("/a")) == 3


def test_a_file_that_changed_between_attempts_is_downloaded_whole(run: Run, origin: Origin, tmp_path: Path) -> None:
    new = CONTENT[::-1]

    def change(handler: acts.Handler) -> None:
        acts.cut_at(100_000)(handler)
        handler.origin.files["/a"] = new

    url = origin.add("/a", CONTENT, change)
    outcome = run(Wanted(url, "a.bin"))
    assert outcome.failed == ()
    assert (tmp_path / "files/a.bin").read_bytes() == new
    assert outcome.fetched[0].digests["sha256"] == sha256(new)


def test_a_server_that_mixes_two_files_is_detected_by_the_digest(run: Run, origin: Origin, tmp_path: Path) -> None:
    """It sends the same tag for different content: the next attempt downloads the whole file."""

    def lie(handler: acts.Handler) -> None:
        body = bytes(len(CONTENT) - 100_000)
        span = f"bytes 100000-{len(CONTENT) - 1}/{len(CONTENT)}"
        handler.answer(206, body, {"ETag": acts.tag(CONTENT), "Content-Range": span})

    url = origin.add("/a", CONTENT, acts.cut_at(100_000), lie)
    assert run(Wanted(url, "a.bin", digests={"sha256": sha256(CONTENT)})).failed == ()
    assert (tmp_path / "files/a.bin").read_bytes() == CONTENT
    assert [each.headers.get("Range") for each in origin.asked("/a")] == [None, "bytes=100000-", None]


@pytest.mark.parametrize("span", ["bytes 0-299999/300000", "bytes 100000-200000/300000", "nonsense", ""])
def test_a_range_other_than_the_requested_one_is_not_accepted(
    run: Run, origin: Origin, span: str, tmp_path: Path
) -> None:
    other = acts.status(206, Content_Range=span)
    url = origin.add("/a", CONTENT, acts.cut_at(100_000), other)
    assert run(Wanted(url, "a.bin")).failed == ()
    assert (tmp_path / "files/a.bin").read_bytes() == CONTENT


def test_without_a_tag_no_download_is_resumed(run: Run, origin: Origin) -> None:
    url = origin.add("/a", CONTENT, acts.promise(len(CONTENT), CONTENT[:100_000]))
    assert run(Wanted(url, "a.bin")).failed == ()
    assert [each.headers.get("Range") for each in origin.asked("/a")] == [None, None]


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({"digests": {"sha256": "0" * 64}}, "sha256"),
        ({"size": 5}, "expected 5"),
        ({"size": 400_000}, "expected 400,000"),
    ],
)
def test_a_file_that_does_not_match_the_manifest_gets_no_name(
    run: Run, origin: Origin, tmp_path: Path, wanted: dict[str, object], why: str
) -> None:
    url = origin.add("/a", CONTENT)
    outcome = run(Wanted(url, "a.bin", **wanted))  # type: ignore[arg-type]
    assert [(each.name, each.tries) for each in outcome.failed] == [("a.bin", 1)]
    assert why in outcome.failed[0].why
    assert list((tmp_path / "files").iterdir()) == []
    assert list((tmp_path / "parts").iterdir()) == []


def test_an_endless_file_is_cut_off_at_its_size(run: Run, origin: Origin, tmp_path: Path) -> None:
    origin.always["/a"] = acts.endless()
    outcome = run(Wanted(origin.url("/a"), "a.bin", size=1000))
    assert "more than the expected 1,000 bytes" in outcome.failed[0].why
    assert list((tmp_path / "files").iterdir()) == []


def test_each_failed_file_says_why_and_the_others_are_downloaded(run: Run, origin: Origin) -> None:
    origin.always["/busy"] = acts.status(503)
    names = ["/none", "/busy", "/good"]
    origin.add("/good", b"good")
    outcome = run(*(Wanted(origin.url(name), name[1:]) for name in names), Wanted("http://10.0.0.1/", "private"))
    assert [(each.name, each.tries) for each in outcome.failed] == [("none", 1), ("busy", 3), ("private", 1)]
    assert [each.why for each in outcome.failed][:2] == [
        f"{origin.url('/none')}: the server answers 404 Not Found",
        f"{origin.url('/busy')}: the server answers 503 Service Unavailable. Retry later",
    ]
    assert [each.name for each in outcome.fetched] == ["good"]


def test_a_name_that_a_folder_has_is_reported(run: Run, origin: Origin, tmp_path: Path) -> None:
    (tmp_path / "files" / "taken.bin").mkdir(parents=True)
    url = origin.add("/a", b"a")
    assert "folder has that name" in run(Wanted(url, "taken.bin")).failed[0].why


# ---------------------------------------------------------------- restarts


def test_a_restart_keeps_complete_files_and_sends_no_request(run: Run, origin: Origin) -> None:
    wanted = [Wanted(origin.add(f"/{n}", CONTENT[n:]), f"{n}.bin") for n in range(3)]
    first = run(*wanted)
    asked = len(origin.seen)
    again = run(*wanted)
    assert len(origin.seen) == asked
    assert all(each.earlier for each in again.fetched)
    assert [each.digests for each in again.fetched] == [each.digests for each in first.fetched]


def test_a_restart_downloads_changed_files_again(run: Run, origin: Origin, tmp_path: Path) -> None:
    wanted = [Wanted(origin.add(f"/{n}", CONTENT), f"{n}.bin") for n in range(4)]
    run(*wanted)
    (tmp_path / "files/0.bin").write_bytes(CONTENT[::-1])
    (tmp_path / "files/1.bin").unlink()
    asked_more = Wanted(wanted[2].url, "2.bin", digests={"sha512": hashlib.sha512(CONTENT).hexdigest()})
    again = run(*wanted[:2], asked_more, wanted[3])
    assert [each.earlier for each in again.fetched] == [False, False, False, True]
    assert (tmp_path / "files/0.bin").read_bytes() == CONTENT


def test_a_restart_continues_a_part_of_this_boot_and_no_other_without_a_digest(
    fetcher: Fetcher, origin: Origin, tmp_path: Path
) -> None:
    once = DownloadOptions(retries=Retries(1))
    url = origin.add("/a", CONTENT, acts.cut_at(100_000), acts.cut_at(200_000))

    def again() -> DownloadOutcome:
        return download(fetcher, [Wanted(url, "a.bin")], tmp_path / "files", tmp_path / "parts", options=once)

    assert len(again().failed) == 1
    assert len(again().failed) == 1
    (note,) = (tmp_path / "parts").glob("*.json")
    note.write_text(json.dumps(json.loads(note.read_text()) | {"boot": "another"}))
    assert again().failed == ()
    assert [each.headers.get("Range") for each in origin.asked("/a")] == [None, "bytes=100000-", None]


def test_a_part_that_was_complete_when_the_process_died_is_not_downloaded_again(
    run: Run, origin: Origin, tmp_path: Path
) -> None:
    wanted = Wanted(origin.add("/a", CONTENT, acts.cut_at(100_000)), "a.bin")
    origin.acts["/a"] += [acts.status(503)] * 2
    assert len(run(wanted).failed) == 1
    (part,) = (tmp_path / "parts").glob("*.part")
    part.write_bytes(CONTENT)
    asked = len(origin.seen)
    assert run(wanted).failed == ()
    assert len(origin.seen) == asked


def test_nothing_under_a_name_is_ever_wrong_after_kills(rules: Rules, origin: Origin, tmp_path: Path) -> None:
    """Processes are killed while they download; the next one continues, and in the end all files are right."""
    contents = {f"{n}.bin": random.Random(n).randbytes(200_000) for n in range(6)}
    wanted = [
        Wanted(origin.add(f"/{name}", content, *[acts.cut_at(60_000)] * 2), name, digests={"sha256": sha256(content)})
        for name, content in contents.items()
    ]
    context = multiprocessing.get_context("fork")
    for kill_at in (30_000, 200_000, 500_000, 900_000):
        process = context.Process(target=_download_and_die, args=(rules, wanted, tmp_path, kill_at))
        process.start()
        process.join()
        assert process.exitcode in (0, -signal.SIGKILL)
        for path in (tmp_path / "files").glob("*"):
            assert path.read_bytes() == contents[path.name]
    with Fetcher(rules) as fetcher:
        outcome = download(fetcher, wanted, tmp_path / "files", tmp_path / "parts", options=HURRY)
    assert len(outcome.fetched) == 6
    assert any(each.earlier for each in outcome.fetched)


def _download_and_die(rules: Rules, wanted: list[Wanted], folder: Path, kill_at: int) -> None:
    came = 0

    def progress(size: int) -> None:
        nonlocal came
        came += size
        if came >= kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    with Fetcher(rules) as fetcher:
        download(fetcher, wanted, folder / "files", folder / "parts", options=HURRY, progress=progress)


def test_a_download_stops_on_request_and_continues_later(run: Run, origin: Origin) -> None:
    wanted = [Wanted(origin.add(f"/{n}", CONTENT, acts.silence), f"{n}.bin") for n in range(6)]
    told = threading.Event()
    with pytest.raises(WorkStopped):
        run(*wanted, stop=told.is_set, progress=lambda _: told.set())
    threads = [each for each in threading.enumerate() if each.name.startswith("download")]
    assert threads == []
    for n in range(6):
        origin.acts[f"/{n}"].clear()
    assert len(run(*wanted).fetched) == 6
    assert "bytes=150000-" in [each.headers.get("Range") for each in origin.seen]
