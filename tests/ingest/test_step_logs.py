"""The log of each step of an ingest job is kept beside the ledger, wherever the queue is."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import fresh_store
from tests.ingest.site import Site, ended, only_job, running, site
from tests.shared_servers import Servers

FILES = {"page-1.txt": b"one\n", "pages/page-2.txt": b"two\n" * 1000}


@pytest.fixture
def here(request: pytest.FixtureRequest, servers: Servers, tmp_path: Path) -> Iterator[Site]:
    """A site on a database, and one with its queue on ZooKeeper."""
    stores = [fresh_store(kind, servers, tmp_path) for kind in request.param]
    urls = [next(each) for each in stores]
    with site(tmp_path, urls[0], *urls[1:]) as found:
        yield found
    for each in stores:
        next(each, None)


@pytest.mark.parametrize("here", [["sqlite"], ["postgresql", "zookeeper"]], indirect=True, ids=str)
def test_each_step_keeps_its_log(here: Site) -> None:
    """Which files were fetched, with size and digest, and how the step ended."""
    here.profile(limits__tries=1, callback_url="", callback_secret="")
    url = here.object_manifest("/book.checkm", FILES)
    with here.gate() as gate, running(gate):
        batch = ended(gate, gate.queue.submit("demo", "ann", url))
        job = only_job(gate, batch)
        found = {each.step: each for each in gate.inventory.logs(job.id)}
    assert batch.state == "completed", "\n".join(each.text for each in found.values())
    assert set(found) == {"pending", "estimating", "provisioning", "downloading", "processing", "recording", "notify"}
    assert {(each.attempt, each.stream, each.ended) for each in found.values()} == {(1, "log", True)}
    digest = hashlib.sha256(FILES["page-1.txt"]).hexdigest()
    fetched, *_, last = found["downloading"].text.splitlines()
    assert fetched.startswith(f"page-1.txt: 4 bytes, sha256 {digest}")
    assert last == "done: 4,004 bytes in 2 files"
    assert f"named {job.identifiers.primary}" in found["processing"].text
    assert found["recording"].text == f"done: {job.identifiers.primary} v1 is in the inventory\n"
