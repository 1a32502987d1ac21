"""Banner, tiles, tables, API, metrics and commands show the same numbers."""

import html
import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from headgate.core.counts import MEANINGS
from tests.cli.commands import Headgate
from tests.contract.ledger_steps import expire
from tests.contract.queue_steps import job_in
from tests.http.conftest import Bounded
from tests.http.test_dashboard import signed_in
from tests.waiting import until


def text_of(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def fill(service: Bounded) -> None:
    ledger = service.gate.ledger
    for name in ("raw", "tidy", "index"):
        ledger.define_dataset(name)
    ledger.define_job("clean", inputs=["raw"], outputs=["tidy", "index"], max_attempts=1)
    ledger.publish("raw", [str(number) for number in range(1, 31)])
    for dataid in ("1", "2", "3"):
        ledger.claim("clean", dataid)
    expire(service.gate, "3")
    for number in range(4, 29):
        ledger.fail(ledger.claim("clean", str(number)), "broken")
    ledger.hold("clean", "29", reason="later")
    # One failure was repaired: it counts among those of the last day, but not among the failed chunks.
    ledger.resubmit("clean", "28", reason="again")
    for state in ("downloading", "failed"):
        job_in(service.gate.queue, state)


def test_banner_tiles_tables_api_metrics_and_status_agree(bounded: Callable[..., Bounded], tmp_path: Path) -> None:
    service = bounded()
    fill(service)
    until(
        lambda: service.gate.counts().failures_last_day == 26, "the failures"
    )  # It may have been counted a moment ago.
    now = service.gate.counts()
    assert (now.chunks_running, now.claims_expired, now.chunks_failed, now.failures_last_day) == (2, 1, 24, 26)
    with service.client("read") as client:
        assert client.get("/v1/counts").json() == asdict(now)
        assert client.get("/v1/status?rich=true").json()["counts"] == asdict(now)
        told = dict(re.findall(r'headgate_counts\{count="(\w+)"\} ([\d.]+)', client.get("/metrics").text))
    assert {name: int(float(count)) for name, count in told.items()} == asdict(now)
    with signed_in(service.server, service.gate, "read") as browser:
        first, pipeline, job, ingest = (
            text_of(browser.get(path).text) for path in ("/", "/pipeline", "/pipeline/jobs/clean", "/ingest")
        )
        failed = browser.get("/pipeline/grid?job=clean&status=ERROR").text
    assert "2 chunks and 1 ingest job running, 26 failures in the last day" in first
    for tile in ("Chunks running 2", "Chunks failed 24", "Ingest jobs failed 1", "Failures in the last day 26"):
        assert tile in first
    assert "Chunk failures 25" in first
    assert "Ingest job failures 1" in first
    assert "24 ERROR" in pipeline
    assert "2 running, 1 with a dead worker, 24 failed, 1 held" in job
    assert "1 failed" in ingest
    assert failed.count("<tr id=") == 24
    command = Headgate(service.gate.settings["url"], tmp_path)
    assert command("status", "--json", "--rich").json["counts"] == asdict(now)
    plan = command("job", "plan", "clean", "--json").json["counts"]
    assert plan == {"running": 2, "expired": 1, "failed": 24, "held": 1, "waiting": plan["waiting"]}
    shown = command("status").out
    for name in ("chunks_running", "claims_expired", "chunks_failed", "ingest_jobs_failed", "failures_last_day"):
        assert re.search(rf"^{MEANINGS[name].label} +{getattr(now, name)}$", shown, re.MULTILINE)
