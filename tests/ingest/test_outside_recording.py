"""Objects are recorded in the inventory of another system: all other steps are Headgate's, and do not depend on it."""

from __future__ import annotations

import pytest

from headgate.daemons.names import CONSUMERS
from tests.ingest import test_end_to_end
from tests.ingest.site import Site, ended, only_job, running
from tests.waiting import until

#: The fixture of the tests of whole ingests.
here = test_end_to_end.here
REST = [name for name in CONSUMERS if name != "job-recording"]


@pytest.mark.parametrize("here", test_end_to_end.STORES, indirect=True)
def test_notices_and_reports_are_sent_where_another_system_records(here: Site) -> None:
    """It takes the job, records it in its own database, and finishes the step without a message about the object."""
    here.profile()
    with here.gate() as gate, running(gate, only=REST):
        batch = gate.queue.submit("demo", "ann", here.origin.add("/page.txt", b"a page"), type="file", erc_what="Page")
        until(lambda: [job.state for job in gate.queue.jobs(batch=batch.id)] == ["recording"], "it is stored", 60)
        taken = gate.queue.acquire_job("recording")
        assert taken is not None
        gate.queue.fire(taken, "finish", "recorded elsewhere")
        assert ended(gate, batch).state == "completed", only_job(gate, batch).message
        until(lambda: len(here.mails()) == 1, "it is reported")
        (told,) = here.callbacks()
        assert gate.inventory.objects() == []
    data = told["data"]
    assert (told["type"], data["version"], data["title"]) == ("ingest.completed", 1, "Page")
    assert data["primary_id"] == taken.identifiers.primary
    assert data["files"] > 1
