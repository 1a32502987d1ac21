"""Operators are warned of servers that can lose confirmed writes."""

import pytest
from kazoo.client import KazooClient

import headgate
from headgate.stores.zookeeper.ensemble.versions import (
    ASK_SERVER,
    Version,
    may_lose_writes,
    member_version,
    version_notice,
)
from tests.ensemble import ZooKeeperEnsemble


@pytest.mark.parametrize(
    ("version", "loses"),
    [
        ((3, 4, 14), True), ((3, 7, 2), True), ((3, 8, 0), True), ((3, 8, 3), True), ((3, 8, 4), False),
        ((3, 8, 5), False), ((3, 9, 1), True), ((3, 9, 2), False), ((3, 9, 3), True), ((3, 9, 4), False),
        ((3, 10, 0), False), ((4, 0, 0), False),
    ],
)  # fmt: skip
def test_versions_that_lose_confirmed_writes_are_known(version: Version, *, loses: bool) -> None:
    assert may_lose_writes(version) is loses
    assert bool(version_notice("zookeeper://zk1", version)) is loses


def test_a_server_that_does_not_answer_or_runs_alone_is_not_a_member() -> None:
    assert member_version("srvr is not executed because it is not in the whitelist.\n") is None
    assert member_version("Zookeeper version: 3.8.0-1, built on 2022\nMode: standalone\n") is None
    assert member_version("Zookeeper version: 3.8.0-1, built on 2022\nMode: follower\n") == (3, 8, 0)
    assert version_notice("zookeeper://zk1", None) == []


def test_the_doctor_names_the_version_of_an_ensemble_that_may_lose_writes(
    url: str, zookeeper_ensemble: ZooKeeperEnsemble
) -> None:
    with headgate.connect(url) as gate:
        assert not [each for each in gate.notices() if "can lose writes" in each], "a server that stands alone"
    members = zookeeper_ensemble
    client = KazooClient(hosts=members.url.partition("://")[2])
    client.start()
    runs = member_version(client.command(ASK_SERVER))
    client.stop()
    client.close()
    assert runs is not None, "the tests' servers answer the command"
    with headgate.connect(members.fresh()) as gate:
        notices = [each for each in gate.notices() if "can lose writes" in each]
    assert len(notices) == may_lose_writes(runs)
    assert all(".".join(map(str, runs)) in each for each in notices)
