"""The dashboard over plain HTTP: who can sign in, which requests are refused, and how large a page is."""

import csv
import html
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import click
import httpx2
import pytest

import headgate
from headgate import Gate
from headgate.cli.tree import root
from headgate.core.inventory import Message, MessageKind
from headgate.core.ledger.model import Kind, Row
from headgate.core.queue.model import Place
from headgate.core.tables.machine import By
from headgate.core.tables.states import CHUNK
from headgate.http.dashboard import pages
from headgate.http.dashboard.frame import STATIC
from headgate.http.dashboard.ingest import acts as ingest_acts
from headgate.http.dashboard.pipeline import grid
from headgate.http.dashboard.pipeline.chunks import ACTS, Story, allowed
from headgate.http.dashboard.tables import Column, csv_text
from headgate.http.dashboard.words import absolute, ago, duration, look, short, size
from headgate.stores.sql.database.sql_text import Statement
from tests.waiting import until

PAGES = [
    "/",
    "/pipeline",
    "/pipeline/grid",
    "/locks",
    "/ingest",
    "/ingest/batches",
    "/ingest/jobs",
    "/ingest/objects",
    "/ingest/messages",
]
PAGES += ["/history"]
KEY = re.compile(r'name="form_key" value="(\w+)"')


def test_every_file_with_a_router_is_among_the_pages() -> None:
    files = [found.name for found in walk_packages([str(STATIC.parent)], f"{pages.__package__}.")]
    routers = [router for name in files if (router := getattr(import_module(name), "router", None))]
    assert {id(router) for router in routers} == {id(router) for router in pages.ROUTERS}


@contextmanager
def signed_in(server: Any, gate: Gate, *scopes: str) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=server.url, trust_env=False, headers={"Accept": "text/html"}) as client:
        answer = client.post("/sign-in", data={"token": gate.tokens.new("a test", scopes).token, "next": "/locks"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/locks")
        yield client


@pytest.mark.parametrize(
    "path",
    [
        *PAGES,
        "/locks.csv",
        "/pipeline/chunks.csv",
        "/ingest/jobs.csv",
        "/history.csv",
        "/ingest/hold",
        "/locks/abcd-abcdefghijklmnop-abcdefghijkl",
    ],
)
def test_nothing_is_shown_without_signing_in(server: Any, path: str) -> None:
    answer = httpx2.get(server.url + path, trust_env=False)
    assert (answer.status_code, answer.text) == (303, "")
    assert answer.headers["location"].startswith("/sign-in")


@pytest.mark.parametrize("path", [*PAGES, "/sign-in", "/no-such-page", "/locks/nonsense"])
def test_every_page_keeps_other_sites_and_inline_scripts_out(server: Any, gate: Gate, path: str) -> None:
    with signed_in(server, gate, "read") as client:
        answer = client.get(path)
    assert answer.headers["content-type"].startswith("text/html")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["cache-control"] == "no-store"
    assert not re.search(r"<script(?![^>]*src=)|\sstyle=|\son\w+=", answer.text)


def test_a_message_that_did_not_arrive_is_on_the_first_page_and_in_the_list(server: Any, gate: Gate) -> None:
    report = Message("bid0000000001.report-1", MessageKind.MAIL, "bid0000000001", "From: …")
    gate.inventory.post(report)
    gate.inventory.undelivered(report, "550 no such person", for_good=True)
    with signed_in(server, gate, "read") as client:
        first = client.get("/").text
        assert "1 message not delivered" in first
        assert 'href="/ingest/messages?show=failed"' in first
        assert "550 no such person" in client.get("/ingest/messages?show=failed").text
    gate.inventory.discard(report.id, reason="it is old")


def test_a_session_ends_with_its_time_its_token_and_with_sign_out(server: Any, gate: Gate) -> None:
    def ask(sent: str) -> int:
        return httpx2.get(f"{server.url}/locks", headers={"Cookie": f"{name}={sent}"}, trust_env=False).status_code

    with signed_in(server, gate, "read") as client, signed_in(server, gate, "read") as other:
        name, value = next(iter(client.cookies.items()))
        assert ask(value) == 200
        assert ask(value[:-1] + ("0" if value[-1] != "0" else "1")) == 303
        key = KEY.search(client.get("/locks").text)
        assert key
        assert client.post("/sign-out", data={"form_key": key[1]}).status_code == 303
        assert ask(value) == 303, "a cookie that somebody kept opens nothing after the sign-out"
        value = next(iter(other.cookies.values()))
        assert ask(value) == 200
        gate.tokens.revoke(gate.tokens.list()[-1].id)
        assert ask(value) == 303
    short = gate.sessions.sign_in(gate.tokens.new("a test", ["read"], expires=30).token)
    assert ask(short) == 200
    later(gate, 31)
    assert ask(short) == 303


def later(gate: Gate, seconds: int) -> None:
    """Age all sessions and codes."""
    older = Statement("Time passes.", "update hg_session set expires_at = expires_at - :far")
    gate.store._database.write(lambda tx: tx.run(older, far=seconds * 1_000_000))  # type: ignore[attr-defined]


def test_a_form_of_another_site_or_session_does_nothing(server: Any, gate: Gate) -> None:
    lock = gate.locks.acquire("they", "s3://dashboard/1", "exclusive")
    path = f"/locks/{lock.id}/break"
    with signed_in(server, gate, "admin") as client, signed_in(server, gate, "admin") as other:
        key = KEY.search(client.get(path).text)
        foreign = KEY.search(other.get(path).text)
        assert key
        assert foreign
        good = {"reason": "stuck", "form_key": key[1]}
        for data, headers in (
            ({"reason": "stuck"}, {}),
            ({"reason": "stuck", "form_key": foreign[1]}, {}),
            (good, {"Origin": "https://elsewhere.example"}),
            (good, {"Sec-Fetch-Site": "cross-site"}),
            (good, {"Sec-Fetch-Site": "same-site"}),
        ):
            assert client.post(path, data=data, headers=headers).status_code == 403
        # The session can read through the API; actions also need the key of its forms.
        assert client.get("/v1/locks").status_code == 200
        assert client.post(f"/v1/locks/{lock.id}/break", json={"reason": "stuck"}).status_code == 403
        assert gate.locks.check(lock).id == lock.id
        assert client.post(path, data=good, headers={"Origin": server.url}).status_code == 303
    with pytest.raises(Exception, match="broken"):
        gate.locks.check(lock)


def test_signing_in_from_another_site_is_refused_and_leads_to_no_other_site(server: Any, gate: Gate) -> None:
    token = gate.tokens.new("a test", ["read"]).token
    with httpx2.Client(base_url=server.url, trust_env=False) as client:
        crossed = client.post("/sign-in", data={"token": token}, headers={"Origin": "https://elsewhere.example"})
        assert (crossed.status_code, client.cookies.get("set-cookie")) == (403, None)
        for wanted in ("https://elsewhere.example/", "//elsewhere.example", "/\\elsewhere.example", "javascript:0"):
            answer = client.post("/sign-in", data={"token": token, "next": wanted})
            assert answer.headers["location"] == "/", wanted


def test_static_files_are_kept_forever_under_the_name_of_their_content(server: Any, gate: Gate) -> None:
    page = httpx2.get(f"{server.url}/sign-in", trust_env=False).text
    found = re.findall(r'(?:href|src)="(/static/\w+/[\w.]+)"', page)
    assert len(found) >= 4
    for path in found:
        answer = httpx2.get(server.url + path, trust_env=False)
        assert (answer.status_code, "immutable" in answer.headers["cache-control"]) == (200, True)
    assert httpx2.get(f"{server.url}/static/000000000000/headgate.css", trust_env=False).status_code == 404


def test_a_page_and_everything_it_loads_are_small(server: Any, gate: Gate) -> None:
    with signed_in(server, gate, "read") as client:
        assert len(client.get("/").content) + sum(file.stat().st_size for file in STATIC.iterdir()) < 150_000


def test_every_action_on_a_chunk_is_a_row_of_the_table() -> None:
    by_person = {row.event for row in CHUNK.rows if row.by is By.OPERATOR}
    # Setting any status is for support: it is a command without a button.
    assert {act.event for act in ACTS.values()} == by_person - {"set_status"} | {"publish"}
    for status in (*CHUNK.states, "a word that nobody knows"):
        row = Row("tidy", "1", "clean", Kind.OUTPUT, status) if status != CHUNK.start else None
        state = status if status in CHUNK.states else "other"
        offered = {ACTS[name].event for name in allowed(Story("clean", "1", "tidy", row, (), (), ()))}
        assert offered == {event for event in CHUNK.allowed(state) if event in by_person} - {"set_status"} - (
            {"hold"} if state == "HOLD" else set()
        ), status


@pytest.mark.parametrize("act", ["resubmit", "resubmit-downstream"])
def test_taking_a_chunk_from_a_living_worker_needs_the_force_scope(server: Any, gate: Gate, act: str) -> None:
    for name in (f"{act}-a", f"{act}-b"):
        gate.ledger.define_dataset(name)
    gate.ledger.define_job(f"{act}-make", outputs=[f"{act}-a"])
    gate.ledger.define_job(f"{act}-read", inputs=[f"{act}-a"], outputs=[f"{act}-b"])
    claim = gate.ledger.claim(f"{act}-make", "1")
    path = f"/pipeline/jobs/{act}-make/chunks/1/{act}"
    with signed_in(server, gate, "read", "operate") as operator, signed_in(server, gate, "admin") as admin:
        key, forcers = KEY.search(operator.get("/locks").text), KEY.search(admin.get(path).text)
        assert key
        assert forcers
        sent = {"reason": "stuck", "form_key": key[1], "name": "1"}
        assert (operator.get(path).status_code, operator.post(path, data=sent).status_code) == (403, 403)
        gate.ledger.heartbeat(claim)
        sent["form_key"] = forcers[1]
        assert admin.post(path, data={**sent, "name": ""}).status_code == 422
        gate.ledger.heartbeat(claim)
        assert admin.post(path, data=sent).status_code == 303
    with pytest.raises(headgate.ClaimLost):
        gate.ledger.success(claim)


def test_breaking_one_of_several_locks_says_that_the_others_stay(server: Any, gate: Gate) -> None:
    first, second = (gate.locks.acquire(name, "read:1", "shared") for name in ("ann", "ben"))
    with signed_in(server, gate, "admin") as client:
        assert (
            "1 other lock stays: clients that want it exclusively keep waiting."
            in client.get(f"/locks/{first.id}/break").text
        )
        gate.locks.release(second)
        assert "keep waiting" not in client.get(f"/locks/{first.id}/break").text


def test_a_file_for_spreadsheets_holds_no_formula() -> None:
    columns = {"name": Column("Name", lambda row: row[0]), "count": Column("Count", lambda row: row[1])}
    rows = [("=HYPERLINK(1)", -5), ("@x", 1), ("plain, with comma", None)]
    read = list(csv.reader(io.StringIO("".join(csv_text(columns, rows)))))
    assert read == [["Name", "Count"], ["'=HYPERLINK(1)", "-5"], ["'@x", "1"], ["plain, with comma", ""]]


def test_lists_can_be_downloaded_whole_as_files_and_as_json(server: Any, gate: Gate) -> None:
    made = [gate.queue.submit("in files", "ann", f"https://example.org/{number}").id for number in range(3)]
    gate.queue.set_hold("in files", reason="=1+1", by="ann")
    with signed_in(server, gate, "read") as client:
        page = client.get("/ingest/batches?profile=in+files").text
        links = [html.unescape(each) for each in re.findall(r'href="([^"]+)"(?: download)?>(?:CSV|JSON)<', page)]
        as_file, as_json = (client.get(each) for each in links)
        told = client.get("/history.csv?noun=hold").text
        found = client.get("/v1/history?noun=hold&event=hold").json()["items"]
    assert [row[0] for row in csv.reader(io.StringIO(as_file.text))] == ["Batch", *made]
    assert [each["id"] for each in as_json.json()["items"]] == made
    assert "'=1+1" in told
    assert [each["reason"] for each in found] == ["=1+1"]


@pytest.mark.parametrize(
    "asked",
    [
        "/locks.csv?mode=no",
        "/history.csv?event=no",
        "/pipeline/chunks.csv?status=%00",
        "/ingest/jobs.csv?state=no",
        "/ingest/batches.csv?state=no",
        "/ingest/objects.csv?owner=%00",
    ],
)
def test_a_download_that_cannot_succeed_is_not_started(server: Any, gate: Gate, asked: str) -> None:
    gate.ledger.define_dataset("listed")
    with signed_in(server, gate, "read") as client:
        assert client.get(asked).status_code == 422


def test_a_list_of_chunks_can_be_downloaded_whole_as_a_file(server: Any, gate: Gate) -> None:
    gate.ledger.define_dataset("listed")
    gate.ledger.define_job("lister", inputs=["listed"], outputs=[])
    made = [f"{number:03}" for number in range(grid.LISTED * 2 + 1)]
    gate.ledger.publish("listed", made)
    claim = gate.ledger.claim("lister", made[-1])
    gate.ledger.fail("lister", "=broken", claim.dataid, claim.token)
    with signed_in(server, gate, "read") as client:
        page = client.get("/pipeline/grid?dataset=listed&status=READY").text
        whole, failed = (
            list(csv.DictReader(io.StringIO(client.get(path).text)))
            for path in (
                html.unescape(re.findall(r'href="([^"]+)" download>CSV<', page)[0]),
                "/pipeline/chunks.csv?job=lister",
            )
        )
    assert [each["Data id"] for each in whole] == made
    assert [(each["Data id"], each["Status"], each["Message"]) for each in failed] == [(made[-1], "ERROR", "'=broken")]


def test_a_month_leads_to_its_days_and_a_day_to_its_month(server: Any, gate: Gate) -> None:
    for name in ("days", "months"):
        gate.ledger.define_dataset(name)
    month = {"kind": "period", "period": "month", "unit": "day"}
    gate.ledger.define_job("monthly", inputs=["days"], outputs=["months"], maps={"days": month})
    gate.ledger.publish("days", [f"2026-02-{day:02}" for day in range(1, 28)])
    with signed_in(server, gate, "read") as client:
        page = html.unescape(client.get("/pipeline/jobs/monthly/chunks/2026-02").text)
        assert "27 of 28 days are READY; missing 2026-02-28" in page
        assert page.count('href="/pipeline/datasets/days/chunks/2026-02-') == 28
        day = client.get("/pipeline/datasets/days/chunks/2026-02-03").text
        assert 'href="/pipeline/jobs/monthly/chunks/2026-02"' in day
        gate.ledger.publish("days", "2026-02-28")
        claim = gate.ledger.find_next("monthly")
        assert claim
        gate.ledger.success(claim)
        assert "(every day of the month)" in client.get("/pipeline/jobs/monthly").text
        assert ">28/28</a>" in client.get("/pipeline/grid?dataset=months&size=1").text


def test_a_run_leads_to_its_samples_and_a_sample_says_what_it_was_made_from(server: Any, gate: Gate) -> None:
    for name in ("runs", "samples", "aligned"):
        gate.ledger.define_dataset(name)
    gate.ledger.define_job("split", inputs=["runs"], fan_out=["samples"])
    gate.ledger.define_job("align", inputs=["samples"], outputs=["aligned"])
    gate.ledger.publish("runs", "r1")
    gate.ledger.success(gate.ledger.claim("split", "r1"), outputs={"samples": ["a", "b"]})
    with signed_in(server, gate, "read", "operate") as client:
        page = client.get("/pipeline/jobs/split/chunks/r1").text
        assert 'href="/pipeline/jobs/split/chunks/a"' in page
        sample = client.get("/pipeline/jobs/split/chunks/a", follow_redirects=True)
        assert sample.url.path == "/pipeline/datasets/samples/chunks/a"
        assert "</a>: made from r1</dd>" in sample.text
        assert 'href="/pipeline/jobs/align/chunks/a"' in sample.text
        assert "/hold" not in sample.text, "its status follows that of the run"
        assert 'href="/pipeline/grid?dataset=samples"' in client.get("/pipeline/jobs/split").text


def test_a_list_of_chunks_skips_no_job_at_the_end_of_a_page(server: Any, gate: Gate) -> None:
    gate.ledger.define_dataset("shared")
    jobs = ["reader-1", "reader-2", "reader-3"]
    gate.ledger.publish("shared", [f"{number:02}" for number in range(grid.LISTED // 2)])
    for job in jobs:
        gate.ledger.define_job(job, inputs=["shared"])
        while claim := gate.ledger.find_next(job):
            gate.ledger.success(claim)
    with signed_in(server, gate, "read") as client:
        text = client.get("/pipeline/chunks.csv?dataset=shared&status=DONE").text
    found = [(each["Data id"], each["Job"]) for each in csv.DictReader(io.StringIO(text))]
    assert sorted(found) == [(f"{number:02}", job) for number in range(grid.LISTED // 2) for job in jobs]


def test_a_job_that_killed_its_worker_says_so_and_is_released_by_itself(server: Any, gate: Gate) -> None:
    """It was not held with its collection: clearing a hold leaves it held."""
    gate.queue.submit("deadly", "ann", "https://example.org/1")
    batch = gate.queue.acquire_batch("pending", worker="a test")
    assert batch is not None
    gate.queue.create_jobs(batch, [{"payload_url": "https://example.org/1"}], max_crashes=1)
    gate.queue.fire(batch, "start")
    job = gate.queue.acquire_job("pending", worker="node7", lease=0.03)
    assert job is not None
    until(lambda: gate.queue.reap() == 1, "its owner to die")
    gate.queue.set_hold("deadly", reason="quota", by="ann")
    with signed_in(server, gate, "read", "operate") as client:
        page = client.get(f"/ingest/job/{job.id}").text
        assert "its worker crashed once while pending; check its payload and the log of node7" in page
        assert "Worker crashes" in page
        assert client.get(f"/v1/ingest-jobs/{job.id}").json()["crashes"] == 1
        key = KEY.search(client.get("/ingest/holds/deadly/clear").text)
        assert key
        client.post("/ingest/holds/deadly/clear", data={"reason": "room", "form_key": key[1]})
        assert (gate.queue.hold_of("deadly"), gate.queue.job(job.id).state) == (None, "held")
        assert "the count starts again" in client.get(f"/ingest/job/{job.id}/release").text


#: Ways in which a job fails while it downloads.
FAILING = (("pending", "accept"), ("estimating", "finish"), ("provisioning", "finish"), ("downloading", "fail"))


def test_alarms_lead_the_overview_and_a_failed_job_offers_the_current_profile(server: Any, gate: Gate) -> None:
    queue = gate.queue
    made = queue.submit("unknown", "ann", "https://example.org/1")
    batch = queue.acquire_batch("pending", after=f"bid{int(made.id[3:]) - 1:010}")
    assert batch
    queue.create_jobs(batch, [{"payload_url": "https://example.org/1", "priority": 99}])
    queue.fire(batch, "start")
    (job,) = queue.jobs(batch=made.id)
    for state, event in FAILING:
        taken = queue.acquire_job(state, after=Place(99, f"jid{int(job.id[3:]) - 1:010}"))
        assert taken
        queue.fire(taken, event, "it broke")
    queue.submit("unknown", "ann", "https://example.org/2")
    with signed_in(server, gate, "read", "operate") as client:
        page = client.get("/").text
        assert "waits for a profile that cannot be used: there is no profile unknown" in page
        assert "no running daemon takes batches in the state pending" in page
        assert page.index('id="alarms"') < page.index('id="needs"')
        assert {each["kind"] for each in client.get("/v1/alarms").json()["items"]} >= {"unknown-profile", "no-consumer"}
        shown = client.get(f"/ingest/job/{job.id}").text
        assert f"{job.id} keeps the profile from the start of its batch" in shown
        assert "Resume with the current profile" in shown
        asked = client.get(f"/ingest/job/{job.id}/refresh").text
        assert f"All unfinished jobs of {job.batch} then use the current profile." in asked


def test_items_beyond_the_limit_of_one_release_are_released_by_the_next(
    server: Any, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest_acts, "AT_ONCE", 2)
    for number in range(3):
        gate.queue.submit("many", "ann", f"https://example.org/{number}")
    while batch := gate.queue.acquire_batch("pending", worker="a test"):
        gate.queue.fire(batch, "hold")
    gate.queue.set_hold("many", reason="quota", by="ann")
    with signed_in(server, gate, "read", "operate") as client:
        for left in (1, 0):
            page = client.get("/ingest/batches?state=held&profile=many").text
            assert "/ingest/holds/many/clear" in page
            key = KEY.search(client.get("/ingest/holds/many/clear").text)
            assert key
            done = client.post("/ingest/holds/many/clear", data={"reason": "room", "form_key": key[1]})
            assert (done.status_code, len(gate.queue.batches("held", profile="many"))) == (303, left)
        assert client.get("/ingest/holds/many/clear").status_code == 404


def test_every_colour_is_readable_on_its_background() -> None:
    text = (STATIC / "headgate.css").read_text()
    colours = {name: pair for name, *pair in re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", text)}
    pairs = [(name, f"{name}-page", 4.5) for name in ("ok", "running", "failed", "held", "queued", "forced")]
    pairs += [("text", "page", 7), ("muted", "page", 4.5), ("muted", "raised", 4.5), ("link", "page", 4.5)]
    pairs += [("danger", "page", 4.5), ("on-primary", "link", 4.5), ("ring", "page", 3), ("edge", "page", 3)]
    for front, back, least in pairs:
        for theme in (0, 1):
            found = contrast(colours[front][theme], colours[back][theme])
            assert found >= least, (front, back, theme, found)


def contrast(one: str, other: str) -> float:
    """The contrast ratio, as WCAG defines it."""
    lights = sorted((luminance(one), luminance(other)))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_values_are_formatted_for_people(gate: Gate) -> None:
    assert [duration(each) for each in (0, 40, 134 * 60, 86400 * 3 + 7, None)] == [
        "0 s",
        "40 s",
        "2 h 14 min",
        "3 d",
        "-",
    ]
    assert [size(each) for each in (0, 1023, 1536, 5 * 2**40)] == ["0 B", "1023 B", "1.5 KiB", "5.0 TiB"]
    assert short("abcdefgh" * 4) == "abcdefgh…cdefgh"
    at = gate.locks.acquire("x", "s3://words", "shared").since
    assert (ago(at, at), absolute(at)[-3:]) == ("just now", "UTC")
    assert look("ERROR").shape != look("READY").shape


def test_every_command_that_a_page_names_exists() -> None:
    texts = [file.read_text() for file in (*STATIC.parent.glob("*.py"), *(STATIC.parent / "templates").iterdir())]
    named = {tuple(found.split()) for text in texts for found in re.findall(r"headgate ([a-z-]+(?: [a-z-]+)?)", text)}
    named = {words for words in named if words[0] != "import"}
    assert ("lock", "run") in named
    for words in named:
        group: Any = root
        for word in words:
            group = group.get_command(click.Context(group), word) if isinstance(group, click.Group) else group
            assert group is not None, f"headgate {' '.join(words)}"


def test_a_page_of_locks_that_no_number_names_is_the_first_one(admin: httpx2.Client) -> None:
    assert [admin.get("/locks", params={"after": word}).status_code for word in ("9" * 5000, "x", "²")] == [200] * 3
