"""Stores with tokens to raise, the explanation for other stores, and servers that are refused."""

from types import SimpleNamespace
from typing import Any

import pytest

from headgate.core.errors import BadValue
from headgate.service.epochs import epochs_of
from headgate.stores.sql.dialects.mysql.dialect import Mysql


def store(name: str, **more: Any) -> Any:
    return SimpleNamespace(name=name, **{"epochs": None, **more})


def test_an_ensemble_beside_a_database_is_left_out_with_the_reason() -> None:
    calls: list[tuple[str, str]] = []
    port = SimpleNamespace(raise_tokens=lambda reason, by: calls.append((reason, by)))
    epochs = epochs_of([store("sqlite:///x", epochs=port), store("zookeeper://zk1/x")])
    assert [note.partition(":")[0] for note in epochs.left_out] == ["zookeeper"]
    assert "majority" in epochs.left_out[0]
    epochs.raise_tokens(reason="why", by="ann")
    assert calls == [("why", "ann")]
    with pytest.raises(BadValue, match="reason"):
        epochs.raise_tokens(reason=" ", by="ann")


@pytest.mark.parametrize(("url", "why"), [("zookeeper://zk1/x", "majority"), ("http://host:8750", "with --url")])
def test_a_store_without_tokens_to_raise_says_why(url: str, why: str) -> None:
    with pytest.raises(BadValue, match=why):
        epochs_of([store(url)])


@pytest.mark.parametrize(
    ("rows", "refused"), [([("wsrep_on", "ON")], True), ([("wsrep_on", "OFF")], False), ([], False)]
)
def test_a_galera_cluster_is_refused(rows: list[tuple[str, str]], *, refused: bool) -> None:
    dialect, runner = Mysql("mysql://me@db1/x"), store("", single=lambda _statement: rows)
    if not refused:
        dialect.opened(runner)
        return
    with pytest.raises(BadValue, match="Galera"):
        dialect.opened(runner)
