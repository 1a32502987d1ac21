"""A crowded store, showing every page as an operator of a busy site sees it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from headgate import Gate
from headgate.core.inventory import InventoryFile, Message, MessageKind, Recording
from headgate.core.queue.model import Batch, IngestJob, Report
from tests.browser.site import Site

#: The jobs of the pipeline, in the order of the flow: name, inputs, outputs.
JOBS: Sequence[tuple[str, Sequence[str], Sequence[str]]] = (
    ("clean-readings", ["readings"], ["clean-readings"]),
    ("join-stations", ["clean-readings", "stations"], ["joined-readings"]),
    ("daily-means", ["joined-readings"], ["daily-means"]),
    ("anomalies", ["daily-means"], ["anomalies"]),
    ("publish-maps", ["anomalies"], ["maps"]),
)
DATASETS = ("archive", "stations", "readings", "clean-readings", "joined-readings", "daily-means", "anomalies", "maps")
COLLECTIONS = ("maps", "theses", "newspapers", "field-recordings")
TITLES = (
    "Map of the harbour, 1874", "Plan of the old town", "Chart of the northern coast", "Panorama from the lighthouse",
    "Survey of the river mouth, with soundings in fathoms and the positions of all buoys that were laid that summer",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Size:
    """The amount of everything."""

    #: Data ids of the first dataset; each of the five jobs makes about as many chunks, slightly fewer each time.
    dataids: int = 3800
    locks: int = 200
    waiters: int = 14
    batches: int = 10
    #: Ingest jobs of each batch.
    jobs: int = 50


def crowd(site: Site, size: Size) -> None:
    """Fill an empty site."""
    _queue(site.gate, size)
    _pipeline(site.gate, size)
    _locks(site, size)
    wait(site, size.waiters)


def _pipeline(gate: Gate, size: Size) -> None:
    for name in DATASETS:
        gate.ledger.define_dataset(name, uri=f"s3://observatory/{name}/")
    for name, inputs, outputs in JOBS:
        gate.ledger.define_job(name, inputs=inputs, outputs=outputs, retry_delay=3600)
    days = [str(date(2016, 7, 1) + timedelta(days=number)) for number in range(size.dataids)]
    gate.ledger.publish("readings", days)
    gate.ledger.publish("stations", days)
    gate.ledger.publish("archive", ["2015"])
    step = max(size.dataids // 40, 4)
    for place, (job, _, _) in enumerate(JOBS):
        _work(gate, job, size.dataids - step * (place + 1))
    gate.ledger.hold("daily-means", days[3], reason="the gauge was replaced that day; wait for the calibration")
    gate.ledger.pause("publish-maps", reason="the web server moves to another rack until Thursday")


def _work(gate: Gate, job: str, wanted: int) -> None:
    for number in range(wanted):
        claim = gate.ledger.find_next(job, worker=f"node{number % 7}", lease=24 * 3600)
        if claim is None:
            return
        if number % 370 == min(180, wanted // 2):
            gate.ledger.fail(claim, message=f"{job}: station 0{number % 9} sent no values between 03:00 and 05:00")
        elif number < wanted - 6:
            gate.ledger.success(claim)


def _locks(site: Site, size: Size) -> None:
    locks = site.gate.locks
    for number in range(size.locks):
        lease = None if number % 3 else 24 * 3600.0
        mode = "exclusive" if number % 4 == 0 else "shared"
        resource = f"s3://observatory/{DATASETS[number % len(DATASETS)]}/part-{number:04}.parquet"
        locks.acquire(f"etl-{number % 23}", resource, mode, lease=lease, note="nightly copy" if number % 5 else "")


def wait(site: Site, waiters: int) -> None:
    """Clients wait for two of the locks as long as the site lives."""
    for number in range(waiters):
        wanted = f"s3://observatory/{DATASETS[number % 2 * 4]}/part-{number % 2 * 4:04}.parquet"
        site.wait_for(f"report-{number}", wanted, "shared" if number % 3 else "exclusive")


def _queue(gate: Gate, size: Size) -> None:
    for number in range(size.batches):
        gate.queue.submit(
            COLLECTIONS[number % len(COLLECTIONS)], ("ann", "bea", "carlos")[number % 3],
            f"https://deposit.example.org/2026/harbour-survey-{number + 1}.checkm", type="batch-manifest",
            erc_what=f"Harbour survey, part {number + 1}", erc_who="Port Authority",
        )  # fmt: skip
    for number in range(size.batches):
        batch = gate.queue.acquire_batch("pending", worker="batch-pending on node1")
        assert batch
        _make_jobs(gate, batch, size.jobs)
        _move(gate, batch, number, size)
    gate.queue.set_hold("theses", reason="the quota of the collection is used up", by="ann")
    for number in range(2):
        gate.queue.submit(
            "theses", "bea", f"https://deposit.example.org/2026/thesis-{number}.checkm", erc_what="Theses"
        )
        batch = gate.queue.acquire_batch("pending", worker="batch-pending on node1")
        assert batch
        gate.queue.fire(batch, "hold", "the collection theses is held by ann: the quota of the collection is used up")
    gate.queue.submit("maps", "carlos", "https://deposit.example.org/2026/late.checkm", erc_what="Late deliveries")
    _stored(gate)


def _make_jobs(gate: Gate, batch: Batch, count: int) -> None:
    rows = [
        {
            "payload_url": f"https://deposit.example.org/2026/{batch.id}/object-{number:03}.checkm",
            "settings": {"erc_what": f"{TITLES[number % len(TITLES)]}, sheet {number}"},
        }
        for number in range(count)
    ]
    gate.queue.create_jobs(batch, rows)
    gate.queue.fire(batch, "start")


def _move(gate: Gate, batch: Batch, number: int, size: Size) -> None:
    """Some batches are done, one has failed, others are in progress."""
    steps = ("pending", "estimating", "provisioning", "downloading", "processing", "recording", "notify")
    reach = (len(steps), len(steps), 3, 4, 2, len(steps), 5, 3, 1, 0)[number % 10]
    fails = (0, 4, 7, 2, 0, size.jobs, 3, 0, 0, 0)[number % 10]
    for place, state in enumerate(steps[:reach]):
        for each in range(size.jobs if reach == len(steps) else size.jobs - 5 * place):
            job = gate.queue.acquire_job(state, worker=f"{state} on node{each % 3}")
            if job is None:
                break
            _step(gate, job, place, fails if place == 3 else 0, each)
    if reach == len(steps):
        gate.queue.report_finished()
        taken = gate.queue.acquire_batch("reporting", worker="batch-reporting on node1")
        assert taken
        ids = [job.id for job in gate.queue.jobs("failed", batch=batch.id)]
        done = [job.id for job in gate.queue.jobs("completed", batch=batch.id)]
        report = Report(tuple(ids), tuple(done))
        gate.queue.fire(taken, "finish", f"{len(ids)} of {size.jobs} jobs failed" if ids else "", report=report)


def _step(gate: Gate, job: IngestJob, place: int, fails: int, each: int) -> None:
    if each < fails:
        files = [{"name": f"sheet-{each}.tif", "why": "status 503 from deposit.example.org", "tries": 3}]
        why = f"1 file could not be downloaded: sheet-{each}.tif: status 503 from deposit.example.org (3 tries)"
        gate.queue.fire(job, "fail", why, configuration={"failed_files": files})
    else:
        space = 5_000_000 * (1 + each) if place == 0 else None
        gate.queue.fire(job, "accept" if place == 0 else "finish", space_needed=space)


def _stored(gate: Gate) -> None:
    for number in range(40):
        files = tuple(InventoryFile(f"producer/sheet-{page}.tif", 5_000_000, "a" * 64, 1) for page in range(5))
        job, title = f"jid{number + 1:010}", f"{TITLES[number % 5]}, {number}"
        stored = Recording(
            f"ark:/99999/fk4{number:05}", "library", "maps", 1, f"ark_99999_fk4{number:05}.v1",
            datetime(2026, 11, 15, tzinfo=UTC), files, "Port Authority", title, "1874", (), (f"harbour-{number}",), job,
            "bid0000000001", "maps", "ann",
        )  # fmt: skip
        gate.inventory.record(stored, [Message(f"{job}.mail", MessageKind.MAIL, "bid0000000001", "Dear Ann")])
