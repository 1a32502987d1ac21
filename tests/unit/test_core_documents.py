"""JSON from outside is one document, no matter which parser reads it."""

from __future__ import annotations

import json
import tracemalloc

import pytest

from headgate.core.errors import BadPayload, ForeignStore
from headgate.core.values.documents import MOST_CONTAINERS, MOST_VALUES, DuplicateKey, read_document, read_foreign
from headgate.ingest.storage.ocfl_inventory import read_unsealed
from headgate.stores.zookeeper.locks.records import decode_state
from headgate.stores.zookeeper.queue.tree import Unreadable, decode

TWICE = b'{"id": "a", "list": [{"x": 1, "y": 2, "x": 3}]}'


def test_documents_are_read_as_they_were_written() -> None:
    document = {"a": [1, 2.5, None, True, "ü\n\U0001f600"], "b": {"a": {}}}
    assert read_document(json.dumps(document)) == document
    assert read_foreign(json.dumps(document, ensure_ascii=False).encode()) == document


def test_a_duplicate_key_is_refused_everywhere() -> None:
    with pytest.raises(DuplicateKey, match="the key 'x' appears twice"):
        read_document(TWICE)
    with pytest.raises(BadPayload, match="damaged"):
        read_unsealed(TWICE, "a")
    with pytest.raises(Unreadable):
        decode(TWICE, "status")
    with pytest.raises(ForeignStore, match="appears twice"):
        decode_state(b'{"uri": "u", "token": 1, "token": 2, "holders": [], "waiting": false, "known": true}', "/a")


@pytest.mark.parametrize(
    "text",
    ["NaN", "-Infinity", "1e999", '"\\ud800"', "[" * 60 + "]" * 60, "[" * 100_000, "", "{", '{"a": 1,}', "\ufeff1"],
)
def test_values_that_cannot_be_stored_and_returned_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_document(text)


@pytest.mark.parametrize("unit", [b"[],", b"{},", b'{"a":0},', b'"",'])
def test_a_document_that_would_fill_the_memory_is_not_read(unit: bytes) -> None:
    text = b"[" + unit * (MOST_VALUES + 1 if unit == b'"",' else MOST_CONTAINERS) + b"0]"
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="lists and objects"):
            read_foreign(text)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
