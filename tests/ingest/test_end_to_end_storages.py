"""Ingest into the other kinds of storage: a bucket, and a service behind HTTP."""

from __future__ import annotations

import json
import re
from urllib.parse import parse_qs, unquote

import pytest

from headgate.ingest.objects.reading import verify_object
from headgate.ingest.steps.storing import STORING_SECONDS
from tests.ingest.origin import Act, Handler
from tests.ingest.site import Site, ended, only_job, running
from tests.waiting import until

FILES = {"page-1.txt": b"one\n", "pages/page-2.txt": b"two\n" * 1000}


@pytest.mark.usefixtures("s3_environment")
def test_objects_in_a_bucket(there: Site) -> None:
    there.profile(storage__kind="s3", storage__url=f"s3://shelf/{there.folder.name}")
    with there.gate() as gate, running(gate):
        for number in range(2):
            url = there.object_manifest(f"/{number}.checkm", FILES)
            assert ended(gate, gate.queue.submit("demo", "ann", url, local_id="x")).state == "completed"
        (found,) = gate.inventory.objects()
        assert found.version == 2
        assert verify_object(gate.ingest, "me", found.ark) == []


def test_a_slow_storage_service_does_not_time_out(there: Site) -> None:
    with there.gate() as gate:
        patient, usual = gate.ingest.service("http://h/", STORING_SECONDS), gate.ingest.service("http://h/")
    assert patient.client.timeout.read == patient.rules.answer_seconds == 48 * 3600
    assert usual.client.timeout.read == usual.rules.answer_seconds == 60


def test_objects_behind_http_are_named_sent_recorded_and_announced(there: Site) -> None:
    there.profile(storage__kind="http", storage__url=there.origin.url("/store"), storage__node=7)
    url = there.object_manifest("/1.checkm", FILES)
    with there.gate() as gate, running(gate):
        batch = gate.queue.submit("demo", "ann", url, erc_what="A book")
        failed = only_job(gate, ended(gate, batch))
        assert (failed.state, failed.last_successful) == ("failed", "downloading")
        ark = failed.identifiers.primary
        path = f"/store/add/7/{ark.replace(':', '%3A').replace('/', '%2F')}"
        there.origin.always[path] = storing()
        gate.queue.resume(failed.id)
        until(lambda: gate.queue.job(failed.id).state == "completed", "the job completes")
        (found,) = gate.inventory.objects()
        assert (found.ark, found.version, found.what) == (ark, 1, "A book")
        assert "producer/page-1.txt" in [each.name for each in gate.inventory.files(ark, 1)]
    sent = parse_qs(there.origin.asked(path)[-1].body.decode())
    assert re.search(r"file:///\S+/producer/page-1.txt \| SHA-256 \|", sent["manifest"][0])
    assert [each["data"]["primary_id"] for each in there.callbacks()] == [ark]


def storing() -> Act:
    def act(handler: Handler) -> None:
        ark = unquote(handler.path.rpartition("/")[2])
        handler.answer(200, json.dumps({"ver:versionState": {"ver:identifier": 1, "ver:objectID": ark}}).encode())

    return act
