"""Three ZooKeeper servers connected through proxies, so that members can be cut off from each other."""

from collections.abc import Callable
from functools import partial

from tests.ensemble import ZooKeeperEnsemble
from tests.proxy import BOTH, TO_CLIENT, TO_SERVER, Proxy
from tests.servers import ZooKeeper, free_port

Pair = tuple[int, int]
#: What can be cut between a member and the others: everything, what it receives, or what it sends.
ALL, HEARS, SAYS = "silent", "hears nothing", "says nothing"
#: Silence is noticed after two seconds (in ticks of half a second), so that short partitions matter.
QUICK = ("syncLimit=4", "initLimit=10")


class CutEnsemble(ZooKeeperEnsemble):
    """Each member connects to each other through two proxies: one for the quorum, and one for elections."""

    def __init__(self, size: int = 3) -> None:
        self.members = [ZooKeeper() for _ in range(size)]
        numbers = range(1, size + 1)
        ports = {number: (free_port(), free_port()) for number in numbers}
        #: The proxies by which the first member reaches the second.
        self._ways: dict[Pair, list[Proxy]] = {}
        for pair in ((one, other) for one in numbers for other in numbers if one != other):
            quorum, election = ports[pair[1]]
            alter = partial(self._readdress, pair, ports)
            self._ways[pair] = [Proxy(("127.0.0.1", quorum)), Proxy(("127.0.0.1", election), alter)]
        for number, member in enumerate(self.members, start=1):
            member.join(number, [*(self._line(number, other, ports) for other in numbers), *QUICK])

    def _line(self, number: int, other: int, ports: dict[int, Pair]) -> str:
        quorum, election = ports[other] if number == other else [way.port for way in self._ways[number, other]]
        return f"server.{other}=127.0.0.1:{quorum}:{election}"

    def _readdress(self, pair: Pair, ports: dict[int, Pair], data: bytes) -> bytes:
        """A member that calls for an election sends its own address, and is called back there, through a proxy."""
        one, other = pair
        return data.replace(b"127.0.0.1:%d" % ports[one][1], b"127.0.0.1:%d" % self._ways[other, one][1].port)

    @property
    def hits(self) -> int:
        return sum(way.hits for ways in self._ways.values() for way in ways)

    def isolate(self, member: ZooKeeper, what: str = ALL) -> None:
        """Cut a member off from all others; clients still reach it."""
        number = self.members.index(member) + 1
        for (one, other), ways in self._ways.items():
            if number not in (one, other):
                continue
            # On a connection that the member opened, its data flows to the server; on the others, to the client.
            says, hears = (TO_SERVER, TO_CLIENT) if one == number else (TO_CLIENT, TO_SERVER)
            for way in ways:
                way.hold(*{ALL: BOTH, HEARS: (hears,), SAYS: (says,)}[what])

    def heal(self, *, reset: bool = False) -> None:
        """Reconnect the members."""
        self._each(lambda way: way.heal(reset=reset))

    def discard(self) -> None:
        super().discard()
        self._each(Proxy.close)

    def _each(self, act: Callable[[Proxy], None]) -> None:
        for ways in self._ways.values():
            for way in ways:
                act(way)
