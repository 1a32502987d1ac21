"""A token with a limited `read` sees its namespaces on every route and page, and nothing of others."""

import re
import time
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx2
import pytest

from headgate import Gate
from headgate.core.access.scopes import Reach, check_scope
from headgate.core.errors import BadValue
from headgate.core.queue.model import Identifiers, NewJob
from headgate.daemons.timekeeper import Timekeeper
from headgate.http.app import API
from headgate.http.dashboard import pages
from headgate.http.waiters.feed import PAUSE_SECONDS, SILENCE
from tests.http.conftest import Tokens

#: Prefixes of visible and hidden names, and of all messages that belong to them.
SEEN, HIDDEN = "seen", "hush"
NARROW = ("read:lock:file:/seen/*", "read:data:seen*", "read:queue:seen*")
#: Routes without an answer that ends: streams are tested below.
STREAMS = ("/v1/events",)


class Filled(NamedTuple):
    """The names of one side."""

    lock: str
    batch: str
    job: str


def fill(gate: Gate, word: str) -> Filled:
    """One item of every noun, each with the word in its name, its client, and its message."""
    lock = gate.locks.acquire(f"{word}-client", f"file:/{word}/1", "write")
    with pytest.raises(Exception, match=word):
        gate.locks.acquire(f"{word}-other", f"file:/{word}/1", "write")
    for name in (f"{word}-raw", f"{word}-out"):
        gate.ledger.define_dataset(name, uri=f"file:///{name}")
    gate.ledger.define_job(f"{word}-job", inputs=[f"{word}-raw"], outputs=[f"{word}-out"])
    gate.ledger.publish(f"{word}-raw", [f"{word}-1", f"{word}-2"], by=f"{word}-publisher")
    claims = [gate.ledger.find_next(f"{word}-job", worker=f"{word}-worker") for _ in range(2)]
    assert claims[0] is not None
    gate.ledger.fail(claims[0], f"{word} failed")
    gate.ledger.hold(f"{word}-job", f"{word}-1", reason=f"{word} held")
    gate.ledger.pause(f"{word}-job", reason=f"{word} paused")
    batch = gate.queue.submit(f"{word}-profile", f"{word}-depositor", f"https://example.org/{word}")
    taken = gate.queue.acquire_batch("pending", worker=f"{word}-worker")
    assert taken is not None
    gate.queue.create_jobs(
        taken, [NewJob(f"https://example.org/{word}/1", identifiers=Identifiers(local=(f"{word}-x",)))]
    )
    gate.queue.fire(taken, "start", f"{word} started")
    gate.queue.set_hold(f"{word}-profile", reason=f"{word} on hold")
    (job,) = gate.queue.jobs(batch=batch.id)
    return Filled(lock.id, batch.id, job.id)


def addresses(word: str, filled: Filled) -> list[tuple[str, list[str]]]:
    """Every address for GET, with names of one side in it; and these names."""
    names = {"lock_id": filled.lock, "bid": filled.batch, "jid": filled.job, "item": filled.job,
             "job": f"{word}-job", "dataset": f"{word}-raw", "name": f"{word}-raw", "dataid": f"{word}-1",
             "profile": f"{word}-profile"}  # fmt: skip
    found = []
    for part in (*API, *pages.ROUTERS):
        for each in part.declared:
            if each.method == "GET" and each.path not in STREAMS:
                used: list[str] = []

                def named(place: "re.Match[str]", used: list[str] = used) -> str:
                    used.append(names.get(place[1], "nobody"))
                    return used[-1]

                found.append((re.sub(r"\{(\w+)(?::\w+)?\}", named, each.path), used))
    return found


@pytest.fixture(scope="module")
def sides(gate: Gate) -> dict[str, Filled]:
    filled = {word: fill(gate, word) for word in (SEEN, HIDDEN)}
    # The late chunk is visible, but not the reason: that is in a dataset that the caller may not see.
    expect = {"ids": [f"{SEEN}-late"], "from": "2026-01-01"}
    gate.ledger.define_dataset(f"{SEEN}-mixed", expect=expect)
    gate.ledger.define_dataset(f"{HIDDEN}-late", expect=expect)
    gate.ledger.define_job(f"{HIDDEN}-mix", inputs=[f"{HIDDEN}-late"], outputs=[f"{SEEN}-mixed"])
    assert Timekeeper(gate.expectations, "judge").round() == 2
    return filled


def test_a_late_chunk_is_seen_without_the_hidden_reason(sides: dict[str, Filled], with_scopes: Tokens) -> None:
    del sides
    narrow = with_scopes(*NARROW)
    (late,) = narrow.get("/v1/late").json()["items"]
    assert (late["dataset"], late["reason"]) == (f"{SEEN}-mixed", "something that it is made from is missing")
    (incident,) = [each for each in narrow.get("/v1/incidents").json()["items"] if each["kind"] == "late"]
    assert incident["subject"] == f"{SEEN}-mixed/{SEEN}-late"
    (standing,) = narrow.get("/v1/expectations").json()["items"]
    assert standing["dataset"] == f"{SEEN}-mixed"


def told(client: httpx2.Client, address: str, *asked: str) -> bool:
    """Whether an answer shows hidden names, beyond those in the request."""
    answer = client.get(address)
    assert answer.status_code < 500, (address, answer.text)
    text = answer.text
    for word in (*asked, *map(quote, asked)):
        text = text.replace(word, "")
    return HIDDEN in text


def test_no_address_shows_hidden_items(gate: Gate, sides: dict[str, Filled], with_scopes: Tokens) -> None:
    narrow, whole = with_scopes(*NARROW), with_scopes("read")
    found, shown = [], 0
    folder = Path(gate.settings["profiles_folder"])
    folder.mkdir()
    for word in (SEEN, HIDDEN):
        text = f'collection = "{word}"\nowner = "{word}"\n' + ("" if word == SEEN else "a mistake")
        (folder / f"{word}-profile.toml").write_text(text)
    for address, used in addresses(HIDDEN, sides[HIDDEN]):
        found += [address] if told(narrow, address, *used) else []
        shown += told(whole, address, *used)
    for path, name, asked in (
        ("/v1/status", "rich", "true"),
        ("/v1/history", "noun", "chunk"),
        ("/v1/history", "noun", "hold"),
        ("/v1/chunks", "dataset", f"{HIDDEN}-raw"),
        ("/v1/chunks", "job", f"{HIDDEN}-job"),
        ("/v1/locks", "resource", f"file:/{HIDDEN}/1"),
        ("/v1/history", "resource", f"file:/{HIDDEN}/1"),
        ("/v1/batches", "profile", f"{HIDDEN}-profile"),
        ("/v1/ingest-jobs", "batch", sides[HIDDEN].batch),
    ):
        address = f"{path}?{name}={asked}"
        found += [address] if told(narrow, address, asked) else []
        assert told(whole, address, asked), address
    assert found == []
    assert shown > 20  # A reader without limits sees it at the same addresses.


def test_hidden_items_are_reported_as_not_found(sides: dict[str, Filled], with_scopes: Tokens) -> None:
    """Wrong names are not answered with a list of similar ones."""
    narrow = with_scopes(*NARROW)
    hidden = sides[HIDDEN]
    none = Filled(f"{hidden.lock[:-4]}aaaa", "bid0000000999", "jid0000000999")
    asked = [
        [
            *addresses(word, filled),
            *((f"/v1/{path}?job={word}-job", [f"{word}-job"]) for path in ("chunks", "history")),
            *((f"/v1/chunks{rest}={word}-raw", [f"{word}-raw"]) for rest in ("?dataset", "/spans?dataset")),
            (f"/v1/chunks?dataset={SEEN}-raw&job={word}-job", [f"{word}-job"]),
        ]
        for word, filled in ((HIDDEN, hidden), ("nihi", none))
    ]
    for (path, used), (other, unused) in zip(*asked, strict=True):
        if not path.startswith("/v1/") or path == other:
            continue
        answers = [narrow.get(each) for each in (path, other)]
        texts = [answer.text for answer in answers]
        for word, nobody in zip(used, unused, strict=True):
            texts = [text.replace(word, nobody) for text in texts]
        assert (answers[0].status_code, texts[0]) == (answers[1].status_code, texts[1]), path
    for path in (f"/v1/jobs/{HIDDEN}-jo", "/v1/jobs/x", f"/v1/jobs/{HIDDEN}-jo/plan", f"/v1/history?job={HIDDEN}-jo",
                 f"/v1/chunks?job={HIDDEN}-jo", f"/v1/chunks?dataset={HIDDEN}-ra",
                 f"/v1/chunks/spans?dataset={HIDDEN}-ra"):  # fmt: skip
        assert f"{HIDDEN}-job" not in narrow.get(path).text
        assert f"{HIDDEN}-raw" not in narrow.get(path).text


def test_visible_items_are_shown(sides: dict[str, Filled], with_scopes: Tokens) -> None:
    narrow = with_scopes(*NARROW)
    own = sides[SEEN]

    def ask(path: str) -> Any:
        answer = narrow.get(path)
        assert answer.status_code == 200, (path, answer.text)
        return answer.json()

    assert f"file:/{SEEN}/1" in [each["resource"] for each in ask("/v1/locks")["items"]]
    assert ask(f"/v1/locks/{own.lock}")["resource"] == f"file:/{SEEN}/1"
    assert [each["name"] for each in ask("/v1/datasets")["items"]] == [f"{SEEN}-mixed", f"{SEEN}-out", f"{SEEN}-raw"]
    assert [each["name"] for each in ask("/v1/jobs")["items"]] == [f"{SEEN}-job"]
    assert [each["id"] for each in ask("/v1/batches")["items"]] == [own.batch]
    assert [each["id"] for each in ask("/v1/ingest-jobs")["items"]] == [own.job]
    status = ask("/v1/status?rich=true")
    assert {each["id"] for each in status["locks"]} == {
        f"file:/{SEEN}/1",
        f"data:{SEEN}-raw/{SEEN}-2",
        f"data:{SEEN}-out/{SEEN}-2",
    }
    for noun in ("lock", "chunk", "hold"):
        assert ask(f"/v1/history?noun={noun}")["items"], noun
    for page in (
        "/",
        "/locks",
        "/pipeline",
        "/pipeline/grid",
        "/ingest",
        "/ingest/batches",
        "/ingest/jobs",
        "/history",
    ):
        answer = narrow.get(page)
        assert (answer.status_code, page) == (200, page), answer.text
    assert f"file:/{SEEN}/1" in narrow.get("/locks").text
    assert narrow.get("/metrics").status_code == 403
    assert narrow.get("/v1/clients").status_code == 403


def test_a_stream_of_events_leaves_out_hidden_items(gate: Gate, sides: dict[str, Filled], with_scopes: Tokens) -> None:
    with with_scopes(*NARROW).stream("GET", "/v1/events") as stream:
        lines = stream.iter_lines()
        assert next(lines).startswith("id: ")
        hidden = gate.locks.acquire("x", f"file:/{HIDDEN}/2", "read")
        gate.ledger.unpause(f"{HIDDEN}-job")
        time.sleep(2 * PAUSE_SECONDS)  # Until they were read: no sign of them comes that could be waited for.
        seen = gate.locks.acquire("x", f"file:/{SEEN}/2", "read")
        told: list[str] = []
        while not told or not told[-1].startswith("data: "):
            told.append(next(lines))
    for lock in (hidden, seen):
        gate.locks.release(lock)  # Other tests count what is held.
    gate.ledger.pause(f"{HIDDEN}-job", reason=f"{HIDDEN} paused")
    assert f"file:/{SEEN}/2" in told[-1]
    assert SILENCE.strip() not in told, "it does not learn that something else happened"


def test_a_limited_reader_signs_in_and_out_and_changes_nothing(sides: dict[str, Filled], with_scopes: Tokens) -> None:
    narrow = with_scopes(*NARROW)
    assert narrow.post("/v1/locks", json={"client": "x", "resource": f"file:/{SEEN}/3"}).status_code == 403
    assert narrow.get("/v1/about").json()["scopes"] == list(NARROW)
    assert narrow.post("/v1/sign-in-codes").status_code in (200, 201)


def test_other_scopes_add_the_items_that_they_allow_acting_on(sides: dict[str, Filled], with_scopes: Tokens) -> None:
    worker = with_scopes("read:data:seen*", f"chunk:claim:{HIDDEN}-job")
    assert worker.get(f"/v1/jobs/{HIDDEN}-job").status_code == 200
    assert worker.get(f"/v1/jobs/{SEEN}-job").status_code == 200
    assert worker.get(f"/v1/batches/{sides[SEEN].batch}").status_code == 404


@pytest.mark.parametrize("text", ["read:", "read:data:", "read:datasets:x", "read:data:a*b", "read:x"])
def test_a_meaningless_limit_is_refused(text: str) -> None:
    with pytest.raises(BadValue, match="read by :lock:NAME, :data:NAME, :queue:NAME"):
        check_scope(text)


def test_a_reader_without_limits_has_no_filter() -> None:
    assert Reach(("read", "read:data:x")).sight is None
    assert Reach(("admin",)).sight is None
    assert Reach(("queue:work",)).sight is None
    narrow = Reach(("read:data:x*", "read:data:y")).sight
    assert narrow is not None
    assert [narrow.dataset(each) for each in ("x", "xy", "y", "yx", "z")] == [True, True, True, False, False]
    assert [narrow.resource(each) for each in ("data:x/1", "data:z/1", "file:/x")] == [True, False, False]
