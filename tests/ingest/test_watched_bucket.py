"""A watcher on a prefix of a bucket: pages of keys, new objects, other content, and a bucket that cannot be reached."""

from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import obstore
import pytest

import headgate
from headgate import Gate
from headgate.core.ledger.watches.parsing import parse_watch
from headgate.daemons.watching import places
from headgate.daemons.watching.places import BucketPlace
from headgate.daemons.watching.watcher import FileWatcher
from headgate.ingest.sources.buckets import connect_bucket


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    with headgate.connect(f"sqlite:///{tmp_path / 'headgate.db'}") as gate:
        gate.ledger.define_dataset("scenes")
        yield gate


def put(key: str, content: bytes) -> None:
    obstore.put(connect_bucket("shelf"), key, content)


def send(method: str, endpoint: str, key: str) -> None:
    """Create or delete an empty object with any key; the client refuses some."""
    headers = {"Authorization": "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request"}
    connection = HTTPConnection(endpoint.removeprefix("http://"))
    connection.request(method, f"/shelf/{key}", headers=headers)
    assert connection.getresponse().status in (200, 204)
    connection.close()


def watching(gate: Gate, prefix: str, **keys: object) -> FileWatcher:
    watch = parse_watch("scenes", {"prefix": f"s3://shelf/{prefix}", "pattern": "{scene}.tif", **keys})
    return FileWatcher(gate.watches, watch, BucketPlace(watch.source), worker="one", lease=600)


def test_new_objects_are_published_page_by_page_and_each_once(
    gate: Gate, s3_environment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "PAGE", 2)
    for number in range(5):
        put(f"pages/{number}.tif", b"x")
    put("pages/6.tif.part", b"x")
    put("pages-elsewhere/7.tif", b"x")
    watcher = watching(gate, "pages")
    assert (watcher.look(), watcher.look()) == (5, 0)
    put("pages/0-new.tif", b"x")
    assert watcher.look() == 1, "a key may come before those that are known"
    rows = gate.ledger.status("scenes")
    assert sorted(row.dataid for row in rows) == ["0", "0-new", "1", "2", "3", "4"]


def test_the_tag_distinguishes_unchanged_from_changed_content(gate: Gate, s3_environment: str) -> None:
    watcher = watching(gate, "tags/")
    put("tags/a.tif", b"first")
    assert watcher.look() == 1
    put("tags/a.tif", b"first")
    watcher.look()
    assert watcher.changed == 0, "it is younger, and the same"
    put("tags/a.tif", b"other")
    watcher.look()
    watcher.look()
    assert watcher.changed == 1
    (file,) = gate.watches.counted("scenes")
    assert (file.changes, bool(file.mark.tag)) == (1, True)


def test_a_marker_completes_a_chunk_of_several_objects(gate: Gate, s3_environment: str) -> None:
    keys = {"pattern": "{scene}/{band}.tif", "id": "{scene}", "marker": "{scene}/DONE"}
    watcher = watching(gate, "marked/", **keys)
    for key in ("A/1.tif", "A/2.tif", "B/1.tif"):
        put(f"marked/{key}", b"x")
    assert (watcher.look(), watcher.waiting) == (0, 3)
    put("marked/A/DONE", b"")
    assert watcher.look() == 0, "objects that came with it may have been missed"
    assert (watcher.look(), watcher.waiting) == (1, 1)


def test_a_bucket_that_cannot_be_listed_is_reported(gate: Gate, s3_environment: str) -> None:
    watch = parse_watch("scenes", {"prefix": "s3://no-such-shelf/x/", "pattern": "{scene}.tif"})
    watcher = FileWatcher(gate.watches, watch, BucketPlace(watch.source), worker="one", lease=600)
    assert watcher.look() == 0
    assert "s3://no-such-shelf/x/" in gate.watches.list()[0].problem


def test_an_object_that_stands_for_a_folder_is_not_counted(gate: Gate, s3_environment: str) -> None:
    """Consoles create an empty object whose key ends with a slash; lists omit the slash. Empty files count."""
    for key in ("made/", "made/sub/", "made/empty", "made/sub/deeper"):
        send("PUT", s3_environment, key)
    watcher = watching(gate, "made/", pattern="{scene}")
    assert (watcher.look(), watcher.look()) == (1, 0)
    assert [row.dataid for row in gate.ledger.status("scenes")] == ["empty"]
    send("PUT", s3_environment, "made/sub")
    assert watcher.look() == 1, "a file beside the folder of that name"


def test_a_key_that_hides_all_others_is_named(gate: Gate, s3_environment: str) -> None:
    for key in ("odd/a.tif", "odd//b.tif"):
        send("PUT", s3_environment, key)
    watcher = watching(gate, "odd/")
    assert watcher.look() == 0
    assert "cannot be listed while it has a key with //" in watcher.problem
    assert "odd//b.tif" in watcher.problem
    send("DELETE", s3_environment, "odd//b.tif")
    assert (watcher.look(), watcher.problem) == (1, "")


def test_a_bucket_that_cannot_be_opened_is_a_problem_of_the_watcher(
    gate: Gate, s3_environment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    watcher = watching(gate, "closed/")
    assert watcher.look() == 0
    (seen,) = gate.watches.list()
    assert "AWS_ variables" in seen.problem
    assert seen.looked is not None
