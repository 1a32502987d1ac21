"""The clients in `examples/clients`, each in its language, against a real service whose answers sometimes get lost."""

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx2
import pytest

from headgate import Gate
from headgate.http.port.server import Server
from tests.waiting import until

CLIENTS = Path(__file__).parents[2] / "examples/clients"
#: How each client is started, and the programs that it needs.
LANGUAGES = {
    "shell": (["sh", "client.sh"], ["curl", "jq"]),
    "perl": (["perl", "client.pl"], ["perl"]),
    "javascript": (["node", "client.mjs"], ["node"]),
    "java": (["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", "CLASSES", "Client"], ["java", "javac"]),
}
#: Seconds; a third of it passes between renewals.
LEASE = "15"
WAITS = "touch began; while [ ! -e go ]; do sleep 0.1; done"


class Front:
    """Stands between client and service. The first request to each of these paths is refused, or its answer is lost."""

    def __init__(self, server: Server, lost: set[str], busy: set[str]) -> None:
        front = self
        self.lost, self.busy = set(lost), set(busy)
        self.keys: list[tuple[str, str]] = []
        self._lock = threading.Lock()
        self.service = httpx2.Client(base_url=server.url, timeout=60, trust_env=False)

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                act = self.path.partition("?")[0].rpartition("/")[2]
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                front.keys.append((act, self.headers.get("Idempotency-Key") or ""))
                if front.once(front.busy, act):
                    self.answer(503, b'{"type": "urn:headgate:store-unavailable", "detail": "away"}', "1")
                    return
                names = ("Authorization", "Content-Type", "Idempotency-Key")
                headers = {name: self.headers[name] for name in names if name in self.headers}
                found = front.service.request(self.command, self.path, content=body, headers=headers)
                if front.once(front.lost, act):
                    self.connection.close()
                else:
                    self.answer(found.status_code, found.content, found.headers.get("Retry-After"))

            do_DELETE = do_POST  # noqa: N815 - so the library calls it

            def answer(self, status: int, content: bytes, later: str | None) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                if later:
                    self.send_header("Retry-After", later)
                if status != 204:
                    self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def once(self, planned: set[str], act: str) -> bool:
        with self._lock:
            found = act in planned
            planned.discard(act)
            return found


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def front(server: Server) -> Iterator[Front]:
    made = Front(server, lost={"locks", "next"}, busy={"renew", "success"})
    yield made
    made.http.shutdown()
    made.http.server_close()
    made.service.close()


@pytest.fixture(scope="session")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client in Java, compiled once: `java Client.java` would compile it at every start."""
    folder: Path = tmp_path_factory.mktemp("classes")
    words = [
        "javac",
        "-J-XX:TieredStopAtLevel=1",
        "-Xlint:all",
        "-Werror",
        "-d",
        str(folder),
        str(CLIENTS / "Client.java"),
    ]
    subprocess.run(words, check=True)
    return folder


@pytest.fixture(params=LANGUAGES)
def start(request: pytest.FixtureRequest, gate: Gate, front: Front, tmp_path: Path) -> Iterator[Start]:
    """Starts a client of a language in an empty folder."""
    words, programs = LANGUAGES[request.param]
    missing = [each for each in programs if shutil.which(each) is None]
    if missing and os.environ.get("CI"):
        pytest.fail(f"{', '.join(missing)} not installed: make servers installs it")
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed")
    if request.param == "java":
        words = [str(request.getfixturevalue("classes")) if word == "CLASSES" else word for word in words]
    else:
        words = [*words[:-1], str(CLIENTS / words[-1])]
    token = gate.tokens.new("client", ["lock:acquire", "chunk:claim"]).token
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANG": "C.UTF-8", "HEADGATE_API_TOKEN": token,
        "HEADGATE_SERVER": front.url, "HEADGATE_CLIENT": request.param,
    }  # fmt: skip
    begun: list[subprocess.Popen[str]] = []

    def run(*arguments: str, lease: str = LEASE) -> "subprocess.Popen[str]":
        program, known = [*words, *arguments], {**environment, "HEADGATE_LEASE": lease}
        begun.append(subprocess.Popen(program, cwd=tmp_path, env=known, stderr=subprocess.PIPE, text=True))
        return begun[-1]

    yield run
    for each in begun:
        each.kill()
        each.communicate()


def ended(process: "subprocess.Popen[str]") -> tuple[int, str]:
    said = process.communicate(timeout=120)[1]
    return process.returncode, said


def test_a_lock_is_held_renewed_and_released_and_a_second_client_is_refused(
    gate: Gate, front: Front, start: Start, tmp_path: Path
) -> None:
    resource = f"file:/{tmp_path.name}"
    holder = start("lock", resource, "sh", "-c", f'echo "$HEADGATE_TOKEN" >token; {WAITS}')
    until((tmp_path / "began").exists, "the command to begin", 120)
    (held,) = gate.locks.list(resource)
    assert (tmp_path / "token").read_text().strip() == str(held.token)
    code, said = ended(start("lock", resource, "true"))
    assert (code, held.client in said) == (75, True), said
    until(lambda: "renew" not in front.busy and front.keys[-1][0] == "renew", "the lease to be renewed", 120)
    (tmp_path / "go").touch()
    assert ended(holder) == (0, "")
    assert gate.locks.list(resource) == []
    events = [entry.event for entry in gate.history(resource)]
    assert sorted(events) == ["grant", "refuse", "release"], "the answer to the first request was lost"
    assert front.keys[0] == front.keys[1], "the repeat carries the same key"


def test_a_lost_lock_ends_the_command(gate: Gate, start: Start, tmp_path: Path) -> None:
    resource = f"file:/{tmp_path.name}"
    holder = start("lock", resource, "sh", "-c", f"trap 'touch stopped; exit 1' TERM; {WAITS}")
    until((tmp_path / "began").exists, "the command to begin", 120)
    (held,) = gate.locks.list(resource)
    gate.locks.break_lock(held.id, reason="a test", by="test")
    code, said = ended(holder)
    assert (code, "lost" in said) == (76, True), said
    until((tmp_path / "stopped").exists, "the command to be stopped", 120)


def test_every_chunk_is_worked_on_once_and_its_outcome_is_reported(
    gate: Gate, front: Front, start: Start, tmp_path: Path
) -> None:
    raw, tidy, job = (f"{each}-{tmp_path.name}" for each in ("raw", "tidy", "job"))
    gate.ledger.define({raw: {}, tidy: {}}, {job: {"inputs": [raw], "outputs": [tidy], "max_attempts": 1}})
    gate.ledger.publish(raw, ["1", "2 ä%x", "3"])
    command = 'echo "$HEADGATE_DATAID" >>done; test "$HEADGATE_DATAID" != 3'
    code, said = ended(start("work", job, "sh", "-c", command, lease="600"))
    assert code == 1, said
    assert (tmp_path / "done").read_text().splitlines() == ["1", "2 ä%x", "3"]
    rows = {row.dataid: (row.status, row.attempt, row.message) for row in gate.ledger.status(tidy)}
    assert rows == {"1": ("READY", 1, ""), "2 ä%x": ("READY", 1, ""), "3": ("ERROR", 1, "exit code 1")}
    assert (front.lost, front.busy) == ({"locks"}, {"renew"}), json.dumps(front.keys)
