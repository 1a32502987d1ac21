"""The nginx configuration in the docs, run by a separate nginx as an ordinary user."""

import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import httpx2
import pytest

import headgate
from headgate.cli.service.up import up
from headgate.http.limits.sign_ins import MOST_FAILED
from tests.announced import announced
from tests.cli.commands import PROGRAM
from tests.docs.pages import ROOT, blocks_of
from tests.servers import free_port

PAGE = ROOT / "docs/how-to/proxy.md"
#: What nginx needs besides the server, to run as any user in its own folder.
AROUND = "daemon off;\nworker_processes 1;\npid pid;\nevents {}\n"
#: The header in which a test sets the origin of its connection: nginx, and so the page's configuration, trusts it.
FROM = "X-Test-From"
WITHIN = f"access_log off;\nset_real_ip_from 127.0.0.0/8;\nreal_ip_header {FROM};\n" + "".join(
    f"{kind}_temp_path {kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
)
NGINX = shutil.which("nginx", path=os.pathsep.join([os.environ["PATH"], "/usr/sbin"])) or "nginx"
NAME = "headgate.example.org"


class Proxied(NamedTuple):
    """A service behind nginx."""

    #: An admin's token, and the port of nginx.
    token: str
    port: int
    #: The certificate of nginx.
    chain: Path
    folder: Path

    def client(self, come_from: str, **headers: str) -> httpx2.Client:
        """A browser on a machine with that address."""
        trusted = ssl.create_default_context(cafile=str(self.chain))
        url = f"https://127.0.0.1:{self.port}"
        return httpx2.Client(base_url=url, verify=trusted, headers={FROM: come_from, **headers}, trust_env=False)


def configuration() -> str:
    """As on the page."""
    (found,) = (each.content for each in blocks_of(PAGE.read_text(encoding="utf-8")) if each.name.endswith(".conf"))
    return found


def test_the_proxy_uses_the_default_address_of_the_service() -> None:
    (listen,) = (option.default for option in up.params if option.name == "listen")
    assert f"proxy_pass http://{listen};" in configuration()


@pytest.fixture(scope="module")
def proxied() -> Iterator[Proxied]:
    """The service with default settings, behind nginx with the page's server."""
    with ExitStack() as running:
        folder = Path(running.enter_context(tempfile.TemporaryDirectory()))
        account = "nobody" if os.geteuid() == 0 else None
        inner, outer = free_port(), free_port()
        make_certificate(folder)
        server = configuration().replace("443 ssl", f"127.0.0.1:{outer} ssl").replace(":8750", f":{inner}")
        server = server.replace("/etc/ssl/headgate", str(folder))
        (folder / "nginx.conf").write_text(f"{AROUND}http {{\n{WITHIN}{server}}}\n", encoding="utf-8")
        for each in (folder, *folder.iterdir()):
            if account:
                shutil.chown(each, account)
        service = folder / "service"
        service.mkdir()
        said = start(running, [PROGRAM, "-q", "up", "--json", "--listen", f"127.0.0.1:{inner}"], service)
        assert "sign_in" in announced(said)
        with headgate.connect(f"sqlite:///{service}/headgate.db") as gate:
            token = gate.tokens.new("ann", ["admin"]).token
        nginx = start(running, [NGINX, "-p", folder, "-e", folder / "error.log", "-c", "nginx.conf"], folder, account)
        while not listens(outer):
            assert nginx.poll() is None, (folder / "error.log").read_text(encoding="utf-8")
            time.sleep(0.01)
        yield Proxied(token, outer, folder / "chain.pem", service)


def listens(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def start(running: ExitStack, words: list[object], folder: Path, account: str | None = None) -> "subprocess.Popen[str]":
    """A process that ends with the test."""
    process = subprocess.Popen(
        [str(word) for word in words], stdout=subprocess.PIPE, text=True, cwd=folder, user=account
    )
    running.enter_context(process)
    running.callback(process.terminate)
    return process


def make_certificate(folder: Path) -> None:
    """For 127.0.0.1, self-signed."""
    words = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=headgate -addext subjectAltName=IP:127.0.0.1"
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "chain.pem")]
    subprocess.run(["openssl", *words.split(), *files], check=True, capture_output=True, timeout=60)


def test_a_command_works_through_the_proxy(proxied: Proxied) -> None:
    words = [str(PROGRAM), "lock", "run", "file:/x", "--wait", "5", "--", "echo", "under a lock"]
    environment = {
        **os.environ,
        "HEADGATE_SERVER": f"https://127.0.0.1:{proxied.port}",
        "HEADGATE_API_TOKEN": proxied.token,
        "SSL_CERT_FILE": str(proxied.chain),
    }
    done = subprocess.run(
        words, env=environment, cwd=proxied.folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "under a lock\n"), done.stderr


def test_a_browser_signs_in_through_the_proxy_with_a_cookie_for_tls_only(proxied: Proxied) -> None:
    with proxied.client("203.0.113.1", Host=NAME) as browser:
        own = {"Origin": f"https://{NAME}", "Sec-Fetch-Site": "same-origin"}
        for origin in ("https://elsewhere.example", f"http://{NAME}", "https://127.0.0.1"):
            crossed = browser.post("/sign-in", data={"token": proxied.token}, headers={"Origin": origin})
            assert crossed.status_code == 403, origin
        done = browser.post("/sign-in", data={"token": proxied.token}, headers=own)
        assert (done.status_code, done.headers["location"]) == (303, "/"), done.text
        cookie = done.headers["set-cookie"]
        assert cookie.startswith("__Host-headgate-")
        assert "secure" in cookie.lower()
        assert done.headers["strict-transport-security"] == "max-age=31536000"
        sent = {"Cookie": cookie.partition(";")[0]}
        assert browser.get("/locks", headers=sent).status_code == 200
        with browser.stream("GET", "/v1/events", headers=sent) as stream:
            lines = stream.iter_lines()
            assert next(lines).startswith("id: ")
            api = {"Authorization": f"Bearer {proxied.token}"}
            browser.post("/v1/locks", json={"client": "me", "resource": "through nginx"}, headers=api)
            assert "through nginx" in next(line for line in lines if line.startswith("data: "))
        large = os.urandom(3_000_000)
        kept = browser.post("/v1/uploads?name=large.bin", content=large, headers=api)
        assert (kept.status_code, kept.json()["bytes"]) == (201, len(large)), kept.text


def test_limits_count_by_the_real_address_of_a_caller(proxied: Proxied) -> None:
    def fail(come_from: str, **headers: str) -> int:
        with proxied.client(come_from, **headers) as browser:
            return browser.post("/sign-in", data={"token": "hg_wrong"}).status_code

    lies: list[dict[str, str]]
    lies = [{}, {"X-Forwarded-For": "127.0.0.1"}, {"X-Forwarded-For": "203.0.113.8"}, {"Forwarded": "for=127.0.0.1"}]
    assert [fail("203.0.113.7", **lies[turn % 4]) for turn in range(MOST_FAILED)] == [401] * MOST_FAILED
    assert {fail("203.0.113.7", **lie) for lie in lies} == {429}
    assert fail("203.0.113.8") == 401
