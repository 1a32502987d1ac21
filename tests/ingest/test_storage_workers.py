"""A pool of storage workers: if one refuses or is unavailable, the next one is asked."""

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from headgate import Gate
from tests.ingest import origin as acts
from tests.ingest.origin import Origin, serving
from tests.ingest.site import Site, only_job, running
from tests.waiting import until


@pytest.fixture
def workers() -> Iterator[list[Origin]]:
    with ExitStack() as stack:
        yield [stack.enter_context(serving()) for _ in range(2)]


def closed_port() -> str:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{found.getsockname()[1]}/store"


def answer(handler: acts.Handler) -> None:
    """A version of the object that the address names."""
    ark = handler.path.rpartition("/")[2].replace("%3A", ":").replace("%2F", "/")
    handler.answer(200, json.dumps({"ver:versionState": {"ver:identifier": 1, "ver:objectID": ark}}).encode())


def stored(there: Site, gate: Gate, **storage: Any) -> tuple[str, str]:
    """The state of a job after processing, and its message."""
    given = {f"storage__{name}": value for name, value in storage.items()}
    there.profile(storage__kind="http", storage__node=7, **given)
    url = there.object_manifest("/1.checkm", {"a.txt": b"a"})
    steps = ["batch-pending", "job-pending", "job-estimating", "job-provisioning", "job-downloading", "job-processing"]
    with running(gate, only=steps):
        batch = gate.queue.submit("demo", "ann", url)
        ends = {"recording", "failed"}
        until(lambda: {job.state for job in gate.queue.jobs(batch=batch.id)} & ends, "it is processed", 60)
    job = only_job(gate, batch)
    return job.state, job.message


def test_a_worker_that_refuses_or_is_unavailable_is_replaced_by_the_next(there: Site, workers: list[Origin]) -> None:
    busy, good = workers
    busy.default = acts.status(503)
    good.default = answer
    urls = [closed_port(), busy.url("/store"), good.url("/store")]
    with there.gate() as gate:
        state, message = stored(there, gate, url=good.url("/store"), workers=urls)
    assert state == "recording"
    assert f"by {urls[2]}; not by {urls[0]}: " in message
    assert f"not by {urls[1]}: the server answers 503" in message
    assert len(busy.seen) == len(good.seen) == 1


def test_a_worker_that_was_asked_and_does_not_answer_is_not_replaced(there: Site, workers: list[Origin]) -> None:
    """It may have stored the version."""
    lost, good = workers
    lost.default, good.default = acts.reset, answer
    with there.gate() as gate:
        state, message = stored(there, gate, url=good.url("/store"), workers=[lost.url("/store"), good.url("/store")])
    assert state == "failed"
    assert lost.url("/store") in message
    assert good.seen == []


def test_when_all_refuse_the_job_says_why_each_did(there: Site, workers: list[Origin]) -> None:
    for each in workers:
        each.default = acts.status(400)
    urls = [each.url("/store") for each in workers]
    with there.gate() as gate:
        state, message = stored(there, gate, url=urls[0], workers=urls)
    assert state == "failed"
    assert all(url in message for url in urls)


@pytest.mark.parametrize("form", ["url", "host"])
def test_a_service_can_name_the_worker_to_use(there: Site, workers: list[Origin], form: str) -> None:
    first, second = workers
    first.default, second.default = acts.status(400), answer
    named = second.url("/store") if form == "url" else f"127.0.0.1:{second.port}"
    there.origin.add("/hostname", named.encode())
    with there.gate() as gate:
        url = first.url("/store")
        state, message = stored(there, gate, url=url, worker_url=there.origin.url("/hostname"))
    assert (state, first.seen) == ("recording", [])
    assert f"by {second.url('/store')}" in message
