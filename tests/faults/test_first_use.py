"""Eight processes use something new for the first time at the same moment: all are served."""

from collections.abc import Callable

import headgate
from tests.faults.conftest import FULL, Report
from tests.faults.processes import Child, Zygote
from tests.faults.soundness import check_store
from tests.fresh import scheme

PROCESSES = 8
ROUNDS = 20 if FULL else 3


def start_all(processes: Zygote, url: str, rounds: int) -> list[Child]:
    return [
        processes.spawn("tests.faults.scripts:use_first", url=url, name=f"process{number}", rounds=rounds)
        for number in range(PROCESSES)
    ]


def serve_all(children: list[Child], resource: str) -> None:
    """All at once. Each reads and writes it, in the same store; there are no other tokens than theirs."""
    for child in children:
        child.expect("ready")
    for child in children:
        child.channel.send("go", resource=resource)
    served = [child.expect("served") for child in children]
    assert len({each["tag"] for each in served}) == 1
    tokens = [token for each in served for token in each["tokens"]]
    assert sorted(tokens) == list(range(1, 2 * PROCESSES + 1))


def test_a_new_resource(store_url: str, processes: Zygote, report: Report) -> None:
    with headgate.connect(store_url) as gate:
        children = start_all(processes, store_url, ROUNDS)
        for number in range(ROUNDS):
            serve_all(children, f"new:{number}")
        assert check_store(gate, store_url) == []
        assert list(gate.locks.list()) == []
        report(store=scheme(store_url), first_uses=ROUNDS, processes=PROCESSES)


def test_a_new_store(store_url: str, fresh_url: Callable[[], str], processes: Zygote, report: Report) -> None:
    """An empty database: they also race for its schema."""
    rounds = 5 if FULL else 2
    for url in (store_url, *(fresh_url() for _ in range(rounds - 1))):
        children = start_all(processes, url, 1)
        serve_all(children, "new:resource")
        with headgate.connect(url) as gate:
            assert check_store(gate, url) == []
        processes.discard_children()
    report(store=scheme(store_url), new_stores=rounds, processes=PROCESSES)
