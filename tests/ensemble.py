"""A private ZooKeeper ensemble."""

from typing import ClassVar, Self

from tests import fresh
from tests.servers import START_SECONDS, ServerFailed, Throwaway, ZooKeeper, free_port
from tests.waiting import until


class ZooKeeperEnsemble(Throwaway):
    """Several ZooKeeper servers that elect a leader; each member can be killed and restarted separately."""

    kind: ClassVar[str] = "zookeeper"

    def __init__(self, size: int = 3) -> None:
        self.members = [ZooKeeper() for _ in range(size)]
        lines = [f"server.{number}=127.0.0.1:{free_port()}:{free_port()}" for number in range(1, size + 1)]
        for number, member in enumerate(self.members, start=1):
            member.join(number, lines)

    @property
    def url(self) -> str:
        return "zookeeper://" + ",".join(f"127.0.0.1:{member.port}" for member in self.members)

    def start(self) -> Self:
        # All are started before any is waited for: one alone has no majority and never answers.
        stopped = [member for member in self.members if not member.running]
        for member in stopped:
            member.launch()
        for member in stopped:
            member.wait_until_answering()
            member._prepared = True
        return self

    def leader(self) -> ZooKeeper:
        """The current leader; waits for an election in progress."""
        until(lambda: self._leading() is not None, "ZooKeeper to elect a leader", START_SECONDS)
        leader = self._leading()
        if leader is None:
            raise ServerFailed("the ZooKeeper ensemble lost its leader as soon as it had one")
        return leader

    def stop(self) -> None:
        for member in self.members:
            member.stop()

    def kill(self) -> None:
        for member in self.members:
            member.kill()

    def restart(self) -> Self:
        self.stop()
        return self.start()

    def discard(self) -> None:
        for member in self.members:
            member.discard()

    def fresh(self) -> str:
        return fresh.fresh(self.url)

    def _leading(self) -> ZooKeeper | None:
        return next((member for member in self.members if member.mode() in {"leader", "standalone"}), None)
