"""The network breaks between clients, services, stores and members: no wrong grant is made, every call ends in time,
and all workers continue when the network has healed.
"""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

import headgate
from headgate.stores.options import DEFAULT_OPTIONS
from tests.faults import history
from tests.faults.chain_worker import define
from tests.faults.confirmed_writes import ConfirmedWrites
from tests.faults.conftest import FULL, Report
from tests.faults.ensembles import CutEnsemble
from tests.faults.partition import MemberNetwork, Network, Partitioned, Plan, ProxyNetwork
from tests.faults.processes import Zygote
from tests.faults.recorder import Rules
from tests.faults.services import Service
from tests.fresh import scheme
from tests.proxy import Proxy
from tests.shared_servers import Servers

LEASE = 1.0
PLAN = Plan(30, 0.5, 4.0, 1500) if FULL else Plan(2, 1.0, 1.5, 100)
#: Members notice silence after two seconds; only then is a new leader chosen.
MEMBER_PLAN = Plan(5, 1.0, 6.0, 300) if FULL else Plan(2, 2.5, 3.5, 100)
#: Runs with an ensemble; a run is repeated only if the ensemble lost a confirmed write.
MEMBER_RUNS = 4
#: Services and clients here answer within the promised time.
PROMPT = {"HEADGATE_ANSWER_WITHIN": f"{DEFAULT_OPTIONS.answer_within:g}"}
#: Seconds beyond `answer_within` that scheduling may add; on a busy machine more, as `usual_call` measures.
MARGIN_SECONDS = 2.0
#: Chunks for the time around each partition.
CHUNKS = 60

Urls = Sequence[tuple[str, str | None]]


class Bench:
    """What the tests have in common: a chain on a store, a run, and its verdict."""

    def __init__(self, processes: Zygote, report: Report, folder: Path, control_url: str) -> None:
        self._processes = processes
        self._report = report
        self._folder = folder
        self._control_url = control_url

    def run(
        self, network: Network, urls: Urls, store_url: str, plan: Plan = PLAN, *, strict: bool = False
    ) -> None:  # fmt: skip
        """One partition after another.

        `strict`: leases end by one clock alone; where a service outage or a new leader lets them start again, it cannot
        be known from outside when they have certainly ended.
        """
        ledger = not store_url.startswith("zookeeper")
        seed = time.time_ns() % 2**32
        headgate.connect(self._control_url).close()
        with headgate.connect(store_url) as gate:

            def publish(generation: int) -> None:
                first = generation * CHUNKS
                gate.ledger.publish("raw", [str(first + number) for number in range(CHUNKS)])

            if ledger:
                define(gate)
            run = Partitioned(
                self._processes, network, urls, Rules(LEASE, ledger), plan, seed,
                control_url=self._control_url, publish=publish if ledger else lambda _: None,
            )  # fmt: skip
            run.run()
        self._judge(run, plan, scheme(store_url), strict=strict)

    def _judge(self, run: Partitioned, plan: Plan, store: str, *, strict: bool) -> None:
        history.save(
            run.witness.events, self._folder / "history.jsonl"
        )  # It is kept even if the check does not finish.
        found = run.witness.judgement(strict=strict)
        usual = run.usual_call()
        breaks = run.breaks
        self._report(
            store=store, partitions=breaks.made, hit=breaks.hit, violations=len(found), **run.witness.totals(),
            slowest_return=round(breaks.slowest_return, 2), usual_call=round(usual, 2), seed=run.seed,
        )  # fmt: skip
        run.assert_sound(found, self._folder)
        assert breaks.made == plan.partitions
        assert breaks.hit >= 0.8 * plan.partitions, "the partitions hit nothing"
        allowed = DEFAULT_OPTIONS.answer_within + MARGIN_SECONDS + 3 * usual
        assert run.witness.longest < allowed, f"{run.witness.longest_call}; {allowed:.1f} s are allowed"


@pytest.fixture
def bench(processes: Zygote, report: Report, tmp_path: Path) -> Bench:
    return Bench(processes, report, tmp_path, f"sqlite:///{tmp_path / 'control.sqlite'}")


@pytest.fixture
def fresh(servers: Servers) -> Iterator[Callable[[str], str]]:
    """Makes empty stores on the shared servers."""
    with ExitStack() as made:

        def make(kind: str) -> str:
            url = servers.fresh(kind)
            made.callback(servers.leave, kind, url)
            return url

        yield make


@pytest.mark.torture
@pytest.mark.timeout(1600 if FULL else 120)
@pytest.mark.parametrize("kind", ["postgresql", "mariadb", "zookeeper"])
def test_partitions_between_client_and_store(kind: str, fresh: Callable[[str], str], bench: Bench) -> None:
    """Half of the clients are cut off; the other half continues, and may be granted the locks of the first."""
    url = fresh(kind)
    with Proxy(url) as proxy:
        bench.run(ProxyNetwork(proxy), [(proxy.url, None), (url, None)], url, strict=kind != "zookeeper")


@pytest.mark.torture
@pytest.mark.timeout(1600 if FULL else 120)
def test_partitions_between_client_and_service(tmp_path: Path, bench: Bench) -> None:
    store_url = f"sqlite:///{tmp_path / 'headgate.sqlite'}"
    service = Service(tmp_path, store_url, settings=PROMPT)
    try:
        with Proxy(service.url) as proxy:
            urls = [(proxy.url, service.token), (service.url, service.token)]
            bench.run(ProxyNetwork(proxy), urls, store_url)
    finally:
        service.discard()


@pytest.mark.torture
@pytest.mark.timeout(1600 if FULL else 120)
@pytest.mark.parametrize("kind", ["postgresql", "mariadb", "zookeeper"] if FULL else ["postgresql"])
def test_partitions_between_service_and_store(
    kind: str, fresh: Callable[[str], str], tmp_path: Path, bench: Bench
) -> None:
    """Half of the clients use a service that is cut off from its store; the others use the store directly."""
    url = fresh(kind)
    headgate.connect(url).close()
    with Proxy(url) as proxy:
        if kind == "zookeeper":  # It keeps locks; API tokens are in a file beside it.
            settings = {**PROMPT, "HEADGATE_COORDINATION_URL": proxy.url}
            service = Service(tmp_path, f"sqlite:///{tmp_path / 'headgate.sqlite'}", settings=settings)
        else:
            service = Service(tmp_path, proxy.url, settings=PROMPT)
        try:
            bench.run(ProxyNetwork(proxy), [(service.url, service.token), (url, None)], url)
        finally:
            service.discard()


@pytest.mark.torture
@pytest.mark.timeout(MEMBER_RUNS * (400 if FULL else 100))
@pytest.mark.parametrize("part", range(6 if FULL else 1))
def test_partitions_between_members_of_an_ensemble(part: int, bench: Bench, report: Report) -> None:
    """The leader, or another member, is cut off from the others; clients reach them all.

    What an ensemble confirms and then loses by itself cannot be held against the locks: such a run is made again.
    """
    lost = []
    for _ in range(MEMBER_RUNS):
        with CutEnsemble() as ensemble, ConfirmedWrites(ensemble) as writes:
            url = ensemble.fresh()
            network = MemberNetwork(ensemble, random.Random(part + 1))
            try:
                bench.run(network, [(url, None)], url, MEMBER_PLAN)
            except pytest.fail.Exception:
                lost.append(len(writes.lost()))
                if not lost[-1]:
                    raise
            else:
                return
        report(store="zookeeper", ensemble_lost=lost[-1])
    pytest.fail(f"the ensemble lost writes that it had confirmed, in each of {MEMBER_RUNS} runs: {lost}")
