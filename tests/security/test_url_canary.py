"""Signatures, tokens and passwords in URLs are used, and leak nowhere: logs, history, store, mails, answers, pages."""

from __future__ import annotations

import io
import logging
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
from sqlalchemy import MetaData, create_engine, select

from headgate.gate import Gate
from headgate.http.port.server import Server
from headgate.http.service import Service
from headgate.telemetry import JsonLines, logger
from tests.cli.commands import Headgate
from tests.ingest.site import HOOK, ended, only_job, running, site
from tests.waiting import until

#: Columns in which a payload's or a callback's address has to stay complete: it is used from there.
NEEDED = {"hg_batch": ("payload_url", "submission"), "hg_ingest_job": ("configuration",), "hg_intake": ("profile",)}


def rows_of(path: Path) -> str:
    """Every value of every table, except for these columns."""
    engine, tables = create_engine(f"sqlite:///{path}"), MetaData()
    with engine.connect() as connection:
        tables.reflect(connection)
        shown = [
            select(*(column for column in table.columns if column.name not in NEEDED.get(table.name, ())))
            for table in tables.sorted_tables
        ]
        found = [row for each in shown for row in connection.execute(each)]
    engine.dispose()
    return repr(found)


@contextmanager
def logged() -> Iterator[io.StringIO]:
    """The complete log, as the command writes it."""
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    handler.setFormatter(JsonLines())
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield text
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def answers(gate: Gate, items: list[str]) -> str:
    """Every answer to a reader, of the API and of the pages, and answers to mistakes."""
    server = Server(Service(gate), "127.0.0.1:0")
    server.start()
    token = gate.tokens.new("reader", ["read", "operate", "queue:submit"]).token
    paths = ["batches", "ingest-jobs", "messages", "profiles", "profiles/demo", "history", "history?noun=batch"]
    paths += ["status?rich=true", "store/faults", "queue/faults"]
    paths += [f"{'batches' if each.startswith('bid') else 'ingest-jobs'}/{each}" for each in items]
    with httpx2.Client(base_url=server.url, trust_env=False, timeout=60) as client:
        client.headers["Authorization"] = f"Bearer {token}"
        found = [client.get(f"/v1/{path}") for path in paths] + [client.get("/metrics")]
        assert {each.status_code for each in found} == {200}
        pages = [f"/ingest/{'batch' if each.startswith('bid') else 'job'}/{each}" for each in items]
        shown = [
            client.get(path, headers={"accept": "text/html"})
            for path in [*pages, "/ingest/messages", "/ingest/jobs.csv"]
        ]
    server.stop()
    return "".join(each.text for each in [*found, *shown])


def test_secrets_in_addresses_are_used_and_never_shown(tmp_path: Path) -> None:
    canary = f"c4n4ry{secrets.token_hex(8)}"
    signed = f"?X-Amz-Credential=me&X-Amz-Signature={canary}&x=1"
    with site(tmp_path, f"sqlite:///{tmp_path}/headgate.db") as there, logged() as log:
        hook = f"{HOOK}?access_token={canary}"
        there.origin.add(hook, b"")
        there.profile(callback_url=there.origin.url(hook), callback_for_failed=True, limits__tries=1)
        good = there.origin.add(f"/good.txt{signed}", b"good")
        rows = [f"{there.origin.url('/listed.txt')}{signed} | | | | | listed.txt"]
        listed = there.origin.add(
            f"/m.checkm{signed}",
            "\n".join(["#%checkm_0.7", "#%profile | http://uc3.cdlib.org/registry/ingest/manifest/mrt-ingest-manifest",
                       *rows, "#%eof"]).encode(),
        )  # fmt: skip
        payloads = {
            good: "file", there.origin.url(f"/missing.txt{signed}"): "file", listed: "object-manifest",
            f"http://me:{canary}@127.0.0.1:{there.origin.port}/x": "file",
        }  # fmt: skip
        with there.gate() as gate:
            with running(gate):
                batches = [gate.queue.submit("demo", "ann", url, type=kind) for url, kind in payloads.items()]
                states = [ended(gate, each).state for each in batches]
                assert states == ["completed", "failed", "failed", "failed"]
                until(lambda: len(there.mails()) == 4, "all are reported")
                until(lambda: len(there.origin.asked(hook)) == 3, "the callbacks of those with a job")
            assert there.origin.asked(f"/listed.txt{signed}"), "what is listed was asked for, with its signature"
            failed = only_job(gate, batches[1])
            assert failed.configuration["payload_url"].endswith(signed), "it can be fetched again"
            told = answers(gate, [*(each.id for each in batches), failed.id])
        command = Headgate(there.url, there.folder)
        said = [command("ingest", "job", failed.id), command("ingest", "batch", batches[3].id, "--json", "-vv")]
        profiles = {"HEADGATE_PROFILES_FOLDER": str(there.folder / "profiles")}
        said += [command("ingest", "profiles", "--json", **profiles), command("doctor")]
        bodies = [part.get_content() for each in there.mails() for part in each.walk() if not part.is_multipart()]
        sinks = {
            "log": log.getvalue(),
            "store": rows_of(tmp_path / "headgate.db"),
            "answers": told,
            "mails": repr(bodies),
            "callbacks": repr([each.body for each in there.origin.asked(hook)]),
            "commands": "".join(each.out + each.err for each in said),
        }
    assert all(len(text) > 200 for text in sinks.values()), "each was looked at"
    assert {name: text.count(canary) for name, text in sinks.items()} == dict.fromkeys(sinks, 0)
    assert "X-Amz-Signature=***" in sinks["answers"]
