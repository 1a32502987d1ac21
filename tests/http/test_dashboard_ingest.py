"""The pages of ingest over plain HTTP: each offers the actions that the service accepts."""

import html
from collections.abc import Callable
from pathlib import Path

from headgate import Batch, Gate
from headgate.core.queue.model import IngestJob
from tests.http.conftest import Bounded
from tests.http.test_dashboard import FAILING, KEY, signed_in

Start = Callable[..., Bounded]


def _profile(folder: Path, *lines: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "maps.toml").write_text("\n".join(('collection = "maps"', 'owner = "library"', *lines)))


def _failed_jobs(gate: Gate, count: int) -> tuple[Batch, list[IngestJob]]:
    queue = gate.queue
    queue.submit("maps", "ann", "https://example.org/batch")
    batch = queue.acquire_batch("pending")
    assert batch
    queue.create_jobs(batch, [{"payload_url": f"https://example.org/{number}"} for number in range(count)])
    queue.fire(batch, "start")
    for state, event in FAILING:
        while taken := queue.acquire_job(state):
            queue.fire(taken, event, "it broke")
    return queue.batch(batch.id), list(queue.jobs("failed", batch=batch.id))


def test_a_hold_in_the_profile_is_shown_with_its_file_and_without_a_button(bounded: Start, tmp_path: Path) -> None:
    profiles = tmp_path / "profiles"
    _profile(profiles, 'hold = "being listed"')
    gate, server = bounded(profiles_folder=str(profiles))
    gate.queue.submit("maps", "ann", "https://example.org/1")
    batch = gate.queue.acquire_batch("pending")
    assert batch
    gate.queue.fire(batch, "hold", "collection maps is on hold")
    with signed_in(server, gate, "read", "operate") as client:
        for path in (f"/ingest/batch/{batch.id}", "/ingest"):
            page = html.unescape(client.get(path).text)
            assert "/ingest/holds/maps/clear" not in page, path
            assert "maps.toml" in page, path
        assert "Release is not possible: collection maps is on hold" in html.unescape(
            client.get(f"/ingest/batch/{batch.id}").text
        )
        gate.queue.set_hold("maps", reason="mine too", by="ann")
        assert "/ingest/holds/maps/clear" in client.get(f"/ingest/batch/{batch.id}").text


def test_all_failed_jobs_of_a_batch_are_resumed_with_the_current_profile(bounded: Start, tmp_path: Path) -> None:
    profiles = tmp_path / "profiles"
    gate, server = bounded(profiles_folder=str(profiles))
    batch, jobs = _failed_jobs(gate, 2)
    offers = [f"/ingest/batch/{batch.id}/refresh-failed", f"/ingest/job/{jobs[0].id}/refresh"]
    with signed_in(server, gate, "read", "operate") as client:
        for href in offers:
            page = html.unescape(client.get(href.rpartition("/")[0]).text)
            assert href not in page, "there is no profile to use"
            assert "Resume with the current profile is not possible" in page
            assert "there is no profile maps" in page
        _profile(profiles)
        for href in offers:
            assert href in client.get(href.rpartition("/")[0]).text
        asked = client.get(offers[0]).text
        assert "2 jobs failed; 2 can continue" in asked
        key = KEY.search(asked)
        assert key
        done = client.post(offers[0], data={"reason": "the profile is right now", "form_key": key[1]})
        assert done.status_code == 303
    assert {job.state for job in gate.queue.jobs(batch=batch.id)} == {"downloading"}
    kept = gate.inventory.intake(batch.id)
    assert kept
    assert kept.profile


def test_a_batch_that_failed_before_it_had_jobs_is_on_the_first_page(bounded: Start, tmp_path: Path) -> None:
    gate, server = bounded(profiles_folder=str(tmp_path / "none"))
    gate.queue.submit("mapz", "ann", "https://example.org/1")
    batch = gate.queue.acquire_batch("pending")
    assert batch
    gate.queue.fire(batch, "start")
    assert gate.queue.report_finished() == [batch.id]
    reported = gate.queue.acquire_batch("reporting")
    assert reported
    gate.queue.fire(reported, "finish", "there is no profile mapz")
    assert gate.queue.batch(batch.id).state == "failed"
    (failure,) = gate.status(rich=True)["failedBatches"]
    assert (failure["id"], failure["data"], failure["message"]) == (
        batch.id, f"{batch.id} (mapz)", "there is no profile mapz"
    )  # fmt: skip
    with signed_in(server, gate, "read", "operate") as client:
        page = html.unescape(client.get("/").text)
        assert f"{batch.id}: there is no profile mapz" in page
        assert "1 batch failed" in page
        for path in (f"/ingest/batch/{batch.id}", f"/history?item={batch.id}"):
            rows = client.get(path).text.split("reporting → failed")[0]
            assert rows.rindex("tone-failed") > rows.rfind("tone-ok"), "a report of failures has no green tick"
