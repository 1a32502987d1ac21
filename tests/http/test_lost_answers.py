"""A client whose connection is cut before the answer arrives: it retries, and nothing is done twice."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import headgate
from headgate import Gate
from headgate.calls.actor import acting
from headgate.core.access.owners import Actor
from headgate.core.errors import AlreadyDone
from headgate.http.port.server import Server
from tests.contract.queue_steps import WHY, job_in, new_batch, taken_job
from tests.proxy import TO_CLIENT, Cut, Proxy

Made = Callable[[Gate], Any]
Act = Callable[[Gate, Any], Any]


def _chunk(gate: Gate) -> str:
    """A chunk that is held."""
    gate.ledger.define_dataset("out")
    gate.ledger.define_job("make", outputs=["out"])
    dataid = str(len(gate.ledger.status("out")) + 1)
    gate.ledger.hold("make", dataid, reason=WHY)
    return dataid


#: What is there, what is done to it through the service, and the event of the history that must be there once more.
ACTS: dict[str, tuple[Made, Act, str]] = {
    "acquire": (lambda _: None, lambda remote, _: remote.locks.acquire("c", "lost:1", "exclusive"), "grant"),
    "downgrade": (
        lambda gate: gate.locks.acquire("c", "lost:2", "exclusive"),
        lambda remote, lock: remote.locks.downgrade(lock), "downgrade",
    ),
    "upgrade": (
        lambda gate: gate.locks.acquire("c", "lost:3", "shared"),
        lambda remote, lock: remote.locks.upgrade(lock), "upgrade",
    ),
    "break": (
        lambda gate: gate.locks.acquire("c", "lost:4", "exclusive"),
        lambda remote, lock: remote.locks.break_lock(lock.id, reason=WHY), "break",
    ),
    "force": (_chunk, lambda remote, dataid: remote.ledger.force("make", dataid, reason=WHY), "force"),
    "unhold": (_chunk, lambda remote, dataid: remote.ledger.unhold("make", dataid, reason=WHY), "unhold"),
    "forget": (_chunk, lambda remote, dataid: remote.ledger.forget("make", dataid, reason=WHY), "forget"),
    "publish": (
        lambda gate: gate.ledger.define_dataset("published"),
        lambda remote, _: remote.ledger.publish("published", ["1"]), "publish",
    ),
    "fire": (
        lambda gate: (job_in(gate.queue, "notify"), taken_job(gate.queue, "notify"))[1],
        lambda remote, job: remote.queue.fire(job, "finish", WHY), "finish",
    ),
    "resume": (
        lambda gate: job_in(gate.queue, "failed", "recording"),
        lambda remote, job: remote.queue.resume(job.id, reason=WHY), "resume",
    ),
    # Last: the other steps take any pending batch.
    "submit": (lambda _: None, lambda remote, _: new_batch(remote.queue), "submit"),
}  # fmt: skip


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    proxy = Proxy(server.url)
    yield proxy
    proxy.close()


@pytest.fixture
def remote(gate: Gate, proxy: Proxy) -> Iterator[Gate]:
    """A client of the service, through the proxy."""
    with headgate.connect(proxy.url, token=gate.tokens.new("remote", ["admin"]).token) as found:
        yield found


def _told(gate: Gate, event: str) -> int:
    return sum(entry.event == event for entry in gate.history(limit=1000))


@pytest.mark.parametrize("name", ACTS)
def test_a_request_is_carried_out_once_and_answered(gate: Gate, proxy: Proxy, remote: Gate, name: str) -> None:
    make, act, event = ACTS[name]
    with acting(Actor("remote")):
        made = make(gate)
    before = _told(gate, event)
    proxy.arm(Cut(TO_CLIENT, 1))
    assert act(remote, made) is not None
    assert proxy.fired.is_set()
    assert _told(gate, event) == before + 1


def test_a_token_whose_answer_was_lost_is_named(gate: Gate, proxy: Proxy, remote: Gate) -> None:
    proxy.arm(Cut(TO_CLIENT, 1))
    with pytest.raises(AlreadyDone) as refused:
        remote.tokens.new("lost", ["read"])
    (made,) = (each.id for each in gate.tokens.list() if each.name == "lost")
    assert refused.value.result == made


def test_a_file_is_sent_again_from_its_start(gate: Gate, proxy: Proxy, remote: Gate, tmp_path: Path) -> None:
    file = tmp_path / "x.txt"
    file.write_bytes(b"some bytes")
    proxy.arm(Cut(TO_CLIENT, 1))
    url = remote.hand_in(file)
    assert proxy.fired.is_set()
    kept = list(gate.work_folder.rglob("x.txt"))
    assert [each.as_uri() for each in kept] == [url]
    assert kept[0].read_bytes() == b"some bytes"
