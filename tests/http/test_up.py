"""`headgate up` and the commands over HTTP, as separate processes."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

import headgate
from headgate.http.port.server import Server
from headgate.http.service import Service
from tests.announced import announced

COMMAND = [sys.executable, "-m", "headgate"]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[tuple["subprocess.Popen[str]", dict[str, str]]]:
    """A service that was started for the first time, and its output."""
    words = [*COMMAND, "up", "--listen", "127.0.0.1:0", "--json", "-q"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    said = announced(process)
    assert process.stdout
    assert set(said) == {"url", "sign_in"}, "no API token stands in what journals keep"
    with headgate.connect(f"sqlite:///{tmp_path}/headgate.db") as gate:
        made = gate.tokens.new("ann", ["admin"])
    yield process, {**said, "token": made.token}
    if process.poll() is None:
        process.kill()
    process.wait()
    process.stdout.close()


def run(said: dict[str, str], folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """A command that talks to the service."""
    environment = {**os.environ, "HEADGATE_SERVER": said["url"], "HEADGATE_API_TOKEN": said.get("token", "")}
    return subprocess.run(
        [*COMMAND, *words], env=environment, cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )


def test_the_first_start_makes_a_token_and_the_commands_work_with_it(
    service: tuple["subprocess.Popen[str]", dict[str, str]], tmp_path: Path
) -> None:
    process, said = service
    address, _, code = said["sign_in"].partition("#code=")
    assert address == f"{said['url']}/sign-in"
    form = {"token": code, "confirmed": "yes"}
    assert [httpx2.post(address, data=form, trust_env=False).status_code for _ in range(2)] == [303, 401]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    another = run(said, elsewhere, "token", "sign-in", "--json")
    assert json.loads(another.stdout)["sign_in"].startswith(f"{said['url']}/sign-in#code=hgc_"), another.stderr
    lock = json.loads(run(said, elsewhere, "lock", "acquire", "file:/x", "--client", "me", "--json").stdout)
    refused = run(said, elsewhere, "lock", "acquire", "file:/x", "--client", "you")
    assert (refused.returncode, "me" in refused.stderr) == (75, True)
    assert lock
    viewer = run(said, elsewhere, "token", "new", "v", "--role", "viewer", "-q").stdout.strip()
    barred = run({"url": said["url"], "token": viewer}, elsewhere, "lock", "acquire", "file:/y", "--client", "me")
    assert barred.returncode == 77
    assert not list(elsewhere.iterdir()), "the commands made no store of their own"
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert run(said, elsewhere, "status").returncode == 69


def test_a_start_on_a_used_port_says_what_to_do_and_leaves_no_unknown_token(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as used:
        words = [*COMMAND, "up", "--once", "--listen", f"127.0.0.1:{used.getsockname()[1]}"]
        found = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (found.returncode, found.stdout) == (2, "")
    assert "choose another address with --listen" in found.stderr
    words = [*COMMAND, "up", "--once", "--listen", "127.0.0.1:0", "--json", "-q"]
    again = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    assert "/sign-in#code=hgc_" in json.loads(again.stdout)["sign_in"]


@pytest.mark.parametrize("words", [["--listen", "0.0.0.0:0"], ["--listen", "0.0.0.0:0", "--insecure-bind"]])
def test_beyond_this_machine_it_needs_tls_and_tokens(tmp_path: Path, words: list[str]) -> None:
    found = subprocess.run(
        [*COMMAND, "up", *words, "--once"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert found.returncode == 75
    assert "other machines" in found.stderr


def test_the_reason_why_it_does_not_start_is_reported(tmp_path: Path) -> None:
    with headgate.connect(f"sqlite:///{tmp_path}/store.sqlite") as gate:
        for file in tmp_path.glob("store.sqlite*"):
            file.write_bytes(b"no database" * 1000)
        server = Server(Service(gate), "127.0.0.1:0")
        with pytest.raises(headgate.HeadgateError, match="is not a database"):
            server.start()
        server.stop()
