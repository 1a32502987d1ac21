"""Three ZooKeeper servers whose leader is killed: a lease starts again with the next leader, and still ends."""

import time

import headgate
from headgate import Gate, LockLost, StoreUnavailable
from tests.ensemble import ZooKeeperEnsemble
from tests.waiting import until

LEASE = 2.0


def test_a_lease_starts_again_with_a_new_leader_and_then_expires(zookeeper_ensemble: ZooKeeperEnsemble) -> None:
    with headgate.connect(zookeeper_ensemble.fresh(), answer_within="20") as gate:
        lock = gate.locks.acquire("a", "r", "write", lease=LEASE)
        end = time.monotonic() + LEASE
        zookeeper_ensemble.leader().kill()
        zookeeper_ensemble.leader()
        until(lambda: time.monotonic() > end and answers(gate), "more than a lease to pass")
        # No clock of this leader was used so far: its epoch begins now.
        assert gate.locks.renew(lock).token == lock.token
        until(lambda: is_lost(gate, lock), "the lease to run out")
        assert gate.locks.acquire("b", "r", "write").token > lock.token


def answers(gate: Gate) -> bool:
    try:
        gate.store.ping()
    except StoreUnavailable:
        return False
    return True


def is_lost(gate: Gate, lock: headgate.Lock) -> bool:
    try:
        gate.locks.check(lock)
    except LockLost:
        return True
    return False
