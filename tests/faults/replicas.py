"""Two services on one store behind HAProxy, as the docs configure it, killed in turn."""

import re
from pathlib import Path

from tests.docs.pages import ROOT, blocks_of
from tests.faults.services import Service, answers
from tests.servers import PrivateServer, find_program

PAGE = ROOT / "docs/how-to/replicas.md"


def configuration(port: int, services: list[int]) -> str:
    """The configuration of the page, without TLS, and with the services of the test."""
    (shown,) = (each.content for each in blocks_of(PAGE.read_text(encoding="utf-8")) if each.name.endswith(".cfg"))
    bound, count = re.subn(r"bind .*", f"bind 127.0.0.1:{port}", shown)
    assert count == 1
    servers = re.findall(r"server \w+ (\S+)\n", bound)
    for address, each in zip(servers, services, strict=True):
        bound = bound.replace(address, f"127.0.0.1:{each}")
    return bound


class HaProxy(PrivateServer):
    """HAProxy before some services."""

    kind = "haproxy"

    def __init__(self, ports: list[int]) -> None:
        super().__init__()
        self._ports = ports

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @classmethod
    def require_programs(cls) -> None:
        find_program("haproxy", "haproxy", "/usr/sbin:/usr/bin:/usr/local/sbin")

    def answers(self) -> bool:
        return answers(self.url)

    def _prepare(self) -> None:
        text = configuration(self.port, self._ports)
        (self.folder / "haproxy.cfg").write_text(text, encoding="utf-8")

    def _command(self) -> list[str]:
        program = find_program("haproxy", "haproxy", "/usr/sbin:/usr/bin:/usr/local/sbin")
        return [program, "-db", "-f", str(self.folder / "haproxy.cfg")]


class Replicas:
    """Looks like one service to callers and to the siege."""

    def __init__(self, folder: Path, store_url: str) -> None:
        first = Service(folder, store_url)
        self._services = [first, Service(folder, store_url, first.token)]
        self.token = first.token
        self._next = 0
        for service in self._services:
            service.wait()
        self._proxy = HaProxy([service.port for service in self._services]).start()
        self.url = self._proxy.url

    def kill(self) -> None:
        """SIGKILL one of them, each in turn, and start a new one, without waiting for it."""
        self._killed.kill()

    @property
    def answers(self) -> bool:
        """Whether the last killed one is back; the next kill hits the other one."""
        if not self._killed.answers:
            return False
        self._next = 1 - self._next
        return True

    @property
    def _killed(self) -> Service:
        return self._services[self._next]

    def discard(self) -> None:
        for service in self._services:
            service.discard()
        self._proxy.discard()
