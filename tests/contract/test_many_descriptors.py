"""A service has thousands of connections open; `select` knows 1,024 descriptors."""

import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import headgate
from headgate import Claim
from headgate.stores.sql.news import listener
from tests.waiting import until

KNOWN_TO_SELECT, NEVER, PATIENCE = 1024, 1000.0, 60.0


@pytest.fixture
def _many_are_open() -> Iterator[None]:
    made = [os.open(os.devnull, os.O_RDONLY)]
    while made[-1] < KNOWN_TO_SELECT:
        made.append(os.dup(made[0]))
    yield
    for each in made:
        os.close(each)


@pytest.mark.usefixtures("_many_are_open")
def test_wake_ups_arrive_where_many_descriptors_are_open(sql_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "LISTENING_PAUSE", NEVER)
    found: list[Claim | None] = []
    with headgate.connect(sql_url) as gate, headgate.connect(sql_url) as other:
        gate.ledger.define({"raw": {}, "tidy": {}}, {"clean": {"inputs": ["raw"], "outputs": ["tidy"]}})
        waiter = threading.Thread(
            target=lambda: found.append(gate.ledger.find_next("clean", wait=PATIENCE)), daemon=True
        )
        waiter.start()
        news: Any = gate.store.ledger
        until(lambda: news._news._listening and news._news._listener.listening, "the waiter to listen")
        other.ledger.publish("raw", "1")
        waiter.join(PATIENCE / 2)
    assert found
    assert found[0]
