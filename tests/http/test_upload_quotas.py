"""Uploads use up neither the disk nor each other's space, and leave nothing behind when they are abandoned."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from headgate import private
from headgate.http.limits import uploads
from headgate.http.limits.uploads import FREED_SECONDS
from headgate.service.queue.work_folder import PARTIAL_SECONDS, UPLOADS, place_upload, staged_bytes, sweep_folder
from tests.http.conftest import Bounded
from tests.http.test_limits import answer_to, files, head, known
from tests.waiting import until

Start = Callable[..., Bounded]


def send(service: Bounded, client: Any, size: int, name: str = "x") -> Any:
    service.server.service.uploads._counted = float("-inf")  # As if some seconds had passed.
    return client.post("/v1/uploads", params={"name": name}, content=b"x" * size)


def limit_of(answer: Any) -> tuple[int, str, int, str]:
    problem = answer.json()
    return answer.status_code, problem["limit"], problem["value"], answer.headers["retry-after"]


def test_uploads_have_a_quota_for_each_token_and_one_for_all(bounded: Start, tmp_path: Path) -> None:
    service = bounded(upload_quota_per_token="50000", upload_quota="80000")
    with service.client("queue:submit") as one, service.client("queue:submit") as other:
        assert send(service, one, 40_000).status_code == 201
        full = limit_of(send(service, one, 20_000))
        assert full == (507, "upload_quota_per_token", 50_000, str(FREED_SECONDS))
        assert send(service, one, 1_000).status_code == 201
        assert send(service, other, 20_000).status_code == 201
        assert limit_of(send(service, other, 20_000))[:3] == (507, "upload_quota", 80_000)

        def parts() -> Any:  # Its length is unknown until it has arrived.
            yield from (b"x" * 5_000 for _ in range(4))

        refused = other.post("/v1/uploads", params={"name": "x"}, content=parts())
        assert limit_of(refused)[:2] == (507, "upload_quota")
        staged = staged_bytes(tmp_path / "work")
        assert sorted(staged.values()) == [20_000, 48_192]  # A small file uses its block, and its folder's.
        shutil.rmtree(tmp_path / "work" / UPLOADS)  # Their batches are gone.
        assert send(service, one, 40_000).status_code == 201


def test_uploads_at_once_are_limited_for_each_token(bounded: Start, tmp_path: Path) -> None:
    service = bounded(uploads_per_token="1")
    header = known(service)
    with service.socket() as first, service.socket() as second, service.client("queue:submit") as other:
        first.sendall(head("/v1/uploads?name=first", header, "Content-Length: 50000") + b"x" * 40_000)
        until(lambda: files(tmp_path) == ["first"], "the first to begin")
        second.sendall(head("/v1/uploads?name=second", header, "Content-Length: 50000"))
        told = answer_to(second)
        assert told.startswith(b"HTTP/1.1 429 ")
        assert b'"limit":"uploads_per_token","value":1' in told
        assert send(service, other, 10).status_code == 201
        first.sendall(b"x" * 10_000)
        assert first.recv(65536).startswith(b"HTTP/1.1 201 ")


class Usage(NamedTuple):
    """The answer of a file system."""

    free: int


def test_free_space_is_checked_before_and_during_an_upload(
    bounded: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = bounded(space_threshold=str(10**15))  # More than is free.
    with service.client("queue:submit") as client:
        assert limit_of(send(service, client, 10))[:3] == (507, "space_threshold", 10**15)
    service = bounded(space_threshold="1000")
    monkeypatch.setattr(uploads, "LOOK_BYTES", 10_000)
    free = iter(
        [100_000, 500]
    )  # Other programs fill the disk meanwhile. An unprivileged user cannot mount a small file system.
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(next(free)))
    with service.client("queue:submit") as client:

        def parts() -> Any:
            yield from (b"x" * 20_000 for _ in range(4))

        refused = client.post("/v1/uploads", params={"name": "x"}, content=parts())
        assert limit_of(refused)[:2] == (507, "space_threshold")
    assert list(free) == []
    until(lambda: files(tmp_path) == [], "nothing to be left")


def test_a_full_disk_is_reported_as_such(bounded: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = bounded()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(private, "opened", full)
    with service.client("queue:submit") as client:
        answer = send(service, client, 10)
    assert (answer.status_code, answer.json()["type"]) == (507, "urn:headgate:no-space")
    assert list((tmp_path / "work" / UPLOADS).iterdir()) == []


def test_partial_uploads_of_a_dead_service_are_removed(bounded: Start, tmp_path: Path) -> None:
    service, folder = bounded(), tmp_path / "work"
    gate = service.gate
    with service.client("queue:submit") as client:
        whole = send(service, client, 10, "whole").json()["payload_url"]
    half = place_upload(folder, "half", "token")
    half.write_bytes(b"x" * 40_000)

    def sweep() -> int:
        return sweep_folder(gate.queue, folder, gate.store.tag, 10**6, lambda _: None)

    assert sweep() == 0  # It may still arrive.
    before = half.stat().st_mtime
    for each in (half, half.parent):
        os.utime(each, (0, before - PARTIAL_SECONDS - 60))
    assert sweep() == 1
    assert [each.name for each in (folder / UPLOADS).rglob("*") if each.is_file()] == ["whole"]
    assert service.gate.ingest.is_uploaded(whole)
