"""Running services of a store: their addresses, and how to sign in."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from headgate.cli.access.tokens import DEFAULT_SERVICE, once_within, sign_in_address
from headgate.core.daemons import LEASE_SECONDS, Daemon
from headgate.core.errors import HeadgateError, Refused
from headgate.daemons.rounds import Rounds
from headgate.service.access.identity import owner

if TYPE_CHECKING:
    from headgate.cli.terminal.console import Console
    from headgate.core.access.scopes import ApiToken, NewToken
    from headgate.gate import Gate

#: The name of a service among the daemons of a store.
SERVICE = "service"
#: The longest wait for a service on this machine to accept a connection.
ANSWER_SECONDS = 1.0
#: The name of the token that the first start creates.
FIRST_TOKEN = "first start"  # noqa: S105 - its name, not the token


@contextmanager
def announced(gate: Gate, url: str) -> Iterator[Rounds]:
    """Register this service in the store inside the block. Yields the rounds that renew the entry."""
    daemon = Daemon(f"{SERVICE} {url.replace('://', ' ')}", owner(), (SERVICE,))

    def renew() -> int:
        gate.queue.presence.sign_on(daemon)
        return 0

    with suppress(HeadgateError):
        renew()
    try:
        yield Rounds(SERVICE, renew, LEASE_SECONDS / 3)
    finally:
        with suppress(HeadgateError):
            gate.queue.presence.sign_off(daemon.id)


def services_here(gate: Gate) -> list[str]:
    """Return the addresses of other services on the same store and machine. Services that were killed do not answer."""
    host = owner().partition(" ")[0]
    found = [each for each in gate.queue.presence.living() if each.steps == (SERVICE,) and each.worker != owner()]
    names = [each.id.split(" ") for each in found if each.worker.partition(" ")[0] == host]
    known = [words[1:] for words in names if words[0] == SERVICE and len(words) == 3]
    return [f"{scheme}://{address}" for scheme, address in known if _answers(address)]


def _answers(address: str) -> bool:
    host, _colon, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), ANSWER_SECONDS):
            return True
    except (OSError, ValueError):
        return False


def already_runs(console: Console, gate: Gate, port: int) -> Refused | None:
    """The error of a start whose port is taken by a service on the same store; None: another program has the port."""
    running = [url for url in services_here(gate) if url.endswith(f":{port}")]
    if not running:
        return None
    return Refused(
        f"a service is already running on this store, at {running[0]}\n{sign_in_line(console, gate, running[0])}\n"
        "To run a second service on the store, name another port: headgate up --listen 127.0.0.1:0"
    )


def sign_in_line(console: Console, gate: Gate, url: str) -> str:
    """How to sign in to a service: an address for the token of the first start, else the command that prints one."""
    token = next((each for each in gate.tokens.list() if each.good and each.name == FIRST_TOKEN), None)
    if token is None:
        return f"to sign in: {sign_in_command(console, url, 'ID')} (token IDs: {console.command('token', 'list')})"
    return f"to sign in: {sign_in_command(console, url, token.id)}"


def sign_in_command(console: Console, url: str, *token_id: str) -> str:
    """The command that prints a sign-in address for that service."""
    return console.command("token", "sign-in", *token_id, *([] if url == DEFAULT_SERVICE else ["--at", url]))


def new_address(gate: Gate, url: str, token: NewToken | ApiToken) -> tuple[str, str]:
    """A sign-in address, and how often and for how long it can be used."""
    code = gate.sessions.new_code(token.id)
    return sign_in_address(url, code), once_within(code)
