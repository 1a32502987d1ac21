"""`headgate up`: dashboard, API and daemons in one process, on one port."""

from __future__ import annotations

import gc
import ipaddress
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from headgate.cli.service.daemon_plan import DaemonPlan, Given, plan
from headgate.cli.service.daemons import Orders, daemon_options, has_profiles, heard_by, run_daemons
from headgate.cli.service.found import (
    FIRST_TOKEN,
    already_runs,
    announced,
    new_address,
    services_here,
    sign_in_command,
    sign_in_line,
)
from headgate.cli.store.init import prepare_store
from headgate.cli.terminal.alarms import alarm_rounds
from headgate.cli.terminal.console import Console
from headgate.cli.terminal.options import common
from headgate.core.errors import BadValue, Refused

if TYPE_CHECKING:
    from headgate.cli.example.showing import Shown
    from headgate.core.access.scopes import NewToken
    from headgate.gate import Gate
    from headgate.http.port.server import Server


@click.command("up")
@click.option(
    "--listen",
    default="127.0.0.1:8750",
    show_default=True,
    metavar="HOST:PORT",
    help="Address; port 0 means any.",
)
@click.option("--tls-cert", type=click.Path(exists=True, dir_okay=False), help="Certificate chain (PEM) for HTTPS.")
@click.option("--tls-key", type=click.Path(exists=True, dir_okay=False), help="Private key (PEM) of the certificate.")
@click.option("--insecure-bind", is_flag=True, help="Listen on addresses of other networks without TLS.")
@daemon_options
@click.option("--example", is_flag=True, help="Create an example in ./headgate-example and run it; see above.")
@click.option("--once", is_flag=True, help="Exit when the daemons have nothing left to do, or the example is done.")
@common
def up(console: Console, /, *, listen: str, example: bool, once: bool, interval: float, **how: Any) -> int:
    """Run the service: dashboard, HTTP API and daemons, on one port, until SIGTERM or SIGINT.

    The first start creates an API token for an administrator, and prints an address that signs a browser in with it.
    The address works once, within 5 minutes; `headgate token sign-in` prints another one, and `headgate token new`
    creates tokens for programs and people. By default the service listens on this machine only. Listening on other
    addresses needs TLS (--tls-cert and --tls-key) and at least one API token, or --insecure-bind.

    --example creates the folder headgate-example with a SQLite store, ingests a small collection from a local web
    server, and runs a pipeline on it. One payload and one chunk fail on purpose, one collection is on hold, and one
    lock is held. Other settings are ignored. It prints a summary and keeps running; with --once it exits, with code 1
    if something unexpected failed. A second start continues with the same folder.

    \b
    Examples:
      headgate up
      headgate up --example
      headgate up --listen 127.0.0.1:0 --json
      headgate up --listen 0.0.0.0:8750 --tls-cert chain.pem --tls-key key.pem
    """
    if not example:
        console.verbose = console.verbose if console.quiet else max(console.verbose, 1)
        prepare_store(console)
        return _run(console, listen, interval, how, once=once)
    from headgate.cli.example.showing import shown_by

    with shown_by(console, once=once) as shown:
        return _run(console, listen, interval, how, once=False, shown=shown)


def _run(
    console: Console, listen: str, interval: float, how: dict[str, Any], *, once: bool, shown: Shown | None = None
) -> int:
    wanted = plan(Given.of(how), once=False, ingest=has_profiles(console))
    tls = _tls(how.pop("tls_cert"), how.pop("tls_key"))
    insecure = how.pop("insecure_bind")
    orders = Orders()
    with heard_by(orders), wanted.guarded(), console.gate() as gate:
        is_first = _is_first(gate, listen, tls=tls is not None, insecure=insecure)
        with _answering(console, gate, listen, tls, orders) as server, announced(gate, server.url) as renewal:
            # Created only when it can be printed: otherwise a failed start would leave a token that nobody knows.
            first = _first_token(gate) if is_first or shown is not None else None
            _print(console, server.url, first, gate)
            if once:
                _finish(gate, wanted, interval)
            elif shown is None:
                run_daemons(console, gate, wanted, interval, orders, [alarm_rounds(console, gate), renewal], **how)
            else:
                shown.note(server.url)
                with shown.running(gate, orders.stop):
                    run_daemons(console, gate, wanted, min(interval, shown.interval), orders, [renewal], **how)
    return 0 if shown is None else shown.code


@contextmanager
def _answering(
    console: Console, gate: Gate, listen: str, tls: tuple[str, str] | None, orders: Orders
) -> Iterator[Server]:
    from headgate.http.port.server import Server, parse_address
    from headgate.http.service import Service

    try:
        server = Server(Service(gate), listen, tls)
    except BadValue:
        if refusal := already_runs(console, gate, parse_address(listen)[1]):
            raise refusal from None
        raise
    server.start(orders.stop.set)
    gc.freeze()  # Loaded modules stay: collecting them took 70 ms every second under load.
    try:
        yield server
    finally:
        server.stop()


def _is_first(gate: Gate, listen: str, *, tls: bool, insecure: bool) -> bool:
    """Whether there is no token yet. Refused if other machines could connect without TLS or a token."""
    if not is_loopback(listen) and not tls and not insecure:
        raise Refused(
            f"{listen} can be reached from other machines, and API tokens would be sent unencrypted: use --tls-cert "
            "and --tls-key, or listen on 127.0.0.1 behind a proxy with TLS, or use --insecure-bind"
        )
    if any(token.good for token in gate.tokens.list()):
        return False
    if not is_loopback(listen):
        raise Refused(
            f"{listen} can be reached from other machines, but there is no API token yet; create one with: "
            "headgate token new NAME"
        )
    return True


def _first_token(gate: Gate) -> NewToken:
    """The token of the first start, which replaces an earlier one."""
    for token in gate.tokens.list():
        if token.good and token.name == FIRST_TOKEN:
            gate.tokens.revoke(token.id)
    return gate.tokens.new(FIRST_TOKEN, ["admin"])


def is_loopback(listen: str) -> bool:
    """Whether only this machine reaches the address."""
    from headgate.http.port.server import parse_address

    host, _ = parse_address(listen)
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _tls(cert: str | None, key: str | None) -> tuple[str, str] | None:
    if (cert is None) != (key is None):
        raise BadValue("tls", cert or key, "is not enough; --tls-cert and --tls-key go together")
    return None if cert is None or key is None else (cert, key)


def _print(console: Console, url: str, first: NewToken | None, gate: Gate) -> None:
    """Print the address. The token itself is not printed, because journals keep the output."""
    if first is None:
        console.answer({"url": url}, lambda: f"headgate is running at {url}")
        console.say(sign_in_line(console, gate, url))
    else:
        address, limits = new_address(gate, url, first)
        console.answer({"url": url, "sign_in": address}, lambda: f"headgate is running at {address}")
        another = sign_in_command(console, url, first.id)
        console.say(f"this address signs a browser in as an admin {limits}; to create another one: {another}")
        new = console.command("token", "new", "NAME", "--role", "admin")
        console.say(f"to create an API token for a program or a person: {new}")
    for other in services_here(gate):
        console.say(f"another service is running on this store, at {other}")


def _finish(gate: Gate, wanted: DaemonPlan, interval: float) -> None:
    from headgate.daemon_wiring import daemon_rounds

    rounds = daemon_rounds(gate, wanted.rounds, interval)
    while sum(each.act() for each in rounds):
        pass
