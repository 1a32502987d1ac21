"""`headgate up` as a process that a test can kill and start again on the same port."""

import os
import random
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

import headgate
from tests.announced import announced
from tests.faults.processes import ChildFailed
from tests.waiting import PATIENT, until

#: The longest time to start on a busy machine.
START_SECONDS = 120.0


class Service:
    """A service on a store, on its own port."""

    def __init__(self, folder: Path, store_url: str, token: str = "", *, settings: dict[str, str] = PATIENT) -> None:
        """`token`: an API token that the store has already; without it one is created.

        `settings`: variables of its environment.
        """
        self._settings = settings
        self.port = port_that_no_client_gets()
        self.url = f"http://127.0.0.1:{self.port}"
        self._folder = folder
        self._store_url = store_url
        self._process = self._start(subprocess.DEVNULL if token else subprocess.PIPE)
        self.token = token or self._new_token()

    def kill(self) -> None:
        """SIGKILL, and start a new one at once, without waiting for it."""
        self.discard()
        self._process = self._start(subprocess.DEVNULL)

    @property
    def answers(self) -> bool:
        return answers(self.url)

    def wait(self) -> None:
        """Wait until it answers."""
        until(lambda: self.answers, "the service to answer", START_SECONDS)

    def discard(self) -> None:
        self._process.kill()
        self._process.wait()

    def _new_token(self) -> str:
        """An admin's token, once the service has migrated the store."""
        said = announced(self._process)
        assert self._process.stdout
        self._process.stdout.close()
        assert said["url"] == self.url
        with headgate.connect(self._store_url) as gate:
            return gate.tokens.new("a test", ["admin"]).token

    def _start(self, output: int) -> "subprocess.Popen[str]":
        clean = {name: value for name, value in os.environ.items() if not name.startswith("HEADGATE_")}
        words = [sys.executable, "-m", "headgate", "up", "--listen", f"127.0.0.1:{self.port}", "--json", "-q"]
        environment = {**clean, **self._settings, "HEADGATE_URL": self._store_url}
        return subprocess.Popen(words, stdout=output, text=True, cwd=self._folder, env=environment)


def answers(url: str) -> bool:
    """Whether a service, or the proxy before it, answers."""
    try:
        with urlopen(f"{url}/healthz", timeout=5) as answer:  # noqa: S310 - our own
            return bool(answer.status == 200)
    except OSError:
        return False


def port_that_no_client_gets() -> int:
    """A free port below the range for clients.

    A client that connects while the service is down could otherwise be assigned the service's own port, and keep it
    from restarting.
    """
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for port in random.sample(range(10_000, first), 100):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise ChildFailed("no port is free")
