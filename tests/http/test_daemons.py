"""Daemons sign on over HTTP: for their own steps, under their own name, and for at most a day."""

import socket

import httpx2

from headgate import Gate
from headgate.cli.service.found import services_here
from headgate.core.daemons import Daemon
from headgate.http.port.server import Server
from headgate.service.access.identity import owner
from tests.http.conftest import Tokens


def signed_on(client: httpx2.Client, daemon: str, *steps: str, lease: float = 60) -> int:
    """The status of the answer."""
    body = {"worker": f"{owner()}x", "steps": steps, "lease": lease}
    return client.put(f"/v1/daemons/{daemon}", json=body).status_code


def test_a_worker_signs_on_for_known_steps_only_and_never_as_a_service(gate: Gate, with_scopes: Tokens) -> None:
    worker = with_scopes("queue:work")
    assert signed_on(worker, "http evil.example:8750", "service") == 422, "up would send administrators there"
    assert signed_on(worker, "http evil.example:8750", "job-pending", "service") == 422
    assert signed_on(worker, "d", "job-pnding") == 422
    assert signed_on(worker, "d", "job-pending", lease=90_000) == 422, "nobody would notice that it died"
    assert gate.queue.presence.living() == []
    assert signed_on(worker, "d", *["job-downloading"] * 100) == 204
    assert [each.steps for each in gate.queue.presence.living()] == [("job-downloading",)]
    assert signed_on(with_scopes("read"), "d", "job-pending") == 403


def test_a_daemon_of_another_principal_cannot_be_signed_off(gate: Gate, server: Server) -> None:
    gate.queue.presence.sign_on(Daemon("host pid 7", "host pid 7", ("reaper",)))
    for principal, daemon in (("host", "pid 7"), ("a b", "c"), ("a", "b c")):
        token = gate.tokens.new("worker", ["queue:work"], principal=principal).token
        with httpx2.Client(base_url=server.url, headers={"Authorization": f"Bearer {token}"}) as client:
            assert client.delete(f"/v1/daemons/{daemon}").status_code == 204
            assert signed_on(client, daemon, "reaper") == 204
    assert {"a b:c", "a:b c", "host pid 7", "host:pid 7"} <= {each.id for each in gate.queue.presence.living()}


def test_only_a_service_is_recognised_as_a_service(gate: Gate) -> None:
    host = owner().partition(" ")[0]
    for name in ("service", "x http evil.example:8750", "service http evil.example:8750 x"):
        gate.queue.presence.sign_on(Daemon(name, f"{host} pid 7", ("service",)))
    assert services_here(gate) == []
    with socket.create_server(("127.0.0.1", 0)) as answers:
        address = f"127.0.0.1:{answers.getsockname()[1]}"
        gate.queue.presence.sign_on(Daemon(f"service http {address}", f"{host} pid 7", ("service",)))
        assert services_here(gate) == [f"http://{address}"]
    assert services_here(gate) == [], "it was killed"
