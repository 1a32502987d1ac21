"""A storage behind HTTP: the requests it gets, and how its answers are interpreted."""

from __future__ import annotations

import json
from urllib.parse import parse_qs

import pytest

from headgate.core.errors import ServiceRefused, ServiceUnavailable
from headgate.ingest.sources.fetch import Fetcher
from headgate.ingest.storage.http import MANIFEST_BYTES, Addition, HttpStorage
from tests.ingest import origin as acts
from tests.ingest.origin import Origin

ARK = "ark:/13030/m5br8stc"
PATH = "/9502/ark%3A%2F13030%2Fm5br8stc"


@pytest.fixture
def storage(fetcher: Fetcher, origin: Origin) -> HttpStorage:
    return HttpStorage(fetcher, origin.url("/store/"), "9502")


def says(document: object) -> acts.Act:
    return lambda handler: handler.answer(200, json.dumps(document).encode())


def version(number: object, ark: str = ARK) -> acts.Act:
    return says({"ver:versionState": {"ver:identifier": number, "ver:objectID": ark}})


def test_a_version_is_added(storage: HttpStorage, origin: Origin) -> None:
    origin.always[f"/store/add{PATH}"] = version(3)
    assert storage.add(Addition(ARK, "#%eof\n", "https://h/m", "jid0000000001")) == 3
    (seen,) = origin.seen
    assert (seen.method, seen.headers["JID"]) == ("POST", "jid0000000001")
    assert parse_qs(seen.body.decode()) == {"t": ["json"], "manifest": ["#%eof\n"]}


def test_an_update_names_removed_files_and_a_large_manifest_is_fetched(storage: HttpStorage, origin: Origin) -> None:
    origin.always[f"/store/update{PATH}"] = version("4")
    addition = Addition(ARK, "x" * MANIFEST_BYTES, "https://h/m", "jid1", update=True, remove="producer/a")
    assert storage.add(addition) == 4
    form = parse_qs(origin.seen[0].body.decode())
    assert form == {"t": ["json"], "url": ["https://h/m"], "delete": ["producer/a"]}


@pytest.mark.parametrize(
    ("act", "error"),
    [
        (acts.status(400), ServiceRefused),
        (acts.status(500), ServiceUnavailable),
        (acts.reset, ServiceUnavailable),
        (acts.endless(), ServiceUnavailable),
        (lambda handler: handler.answer(200, b"<html>"), ServiceUnavailable),
        (says({"ver:versionState": {}}), ServiceUnavailable),
        (says([]), ServiceUnavailable),
        (version(1, "ark:/13030/another"), ServiceRefused),
    ],
)
def test_responses_that_are_not_versions_are_recognised(
    storage: HttpStorage, origin: Origin, act: acts.Act, error: type[Exception]
) -> None:
    origin.always[f"/store/add{PATH}"] = act
    with pytest.raises(error):
        storage.add(Addition(ARK, "", "https://h/m", "jid1"))
