"""The configuration of nginx that the docs show, run by an nginx of its own where there is one."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from headgate.cli.up import up
from tests.cli.commands import PROGRAM
from tests.docs.pages import ROOT, blocks_of
from tests.servers import free_port

PAGE = ROOT / "docs/how-to/proxy.md"
#: What nginx needs beside the server, to run as anybody in a folder of its own.
AROUND = "daemon off;\nworker_processes 1;\npid pid;\nevents {}\n"
TEMPORARY = "access_log off;\n" + "".join(
    f"{kind}_temp_path {kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
)
NGINX = shutil.which("nginx", path=os.pathsep.join([os.environ["PATH"], "/usr/sbin"]))


def configuration() -> str:
    """As the page has it."""
    (found,) = (each.content for each in blocks_of(PAGE.read_text(encoding="utf-8")) if each.name.endswith(".conf"))
    return found


def test_it_leads_to_where_the_service_listens_by_itself() -> None:
    (listen,) = (option.default for option in up.params if option.name == "listen")
    assert f"proxy_pass http://{listen};" in configuration()


@contextmanager
def proxied(nginx: str, folder: Path) -> Iterator[dict[str, str]]:
    """A service behind nginx, and the environment of a command that reaches it through that."""
    inner, outer = free_port(), free_port()
    make_certificate(folder)
    server = configuration().replace("443 ssl", f"127.0.0.1:{outer} ssl").replace(":8750", f":{inner}")
    server = server.replace("/etc/ssl/headgate", str(folder))
    (folder / "nginx.conf").write_text(f"{AROUND}http {{\n{TEMPORARY}{server}}}\n", encoding="utf-8")
    with ExitStack() as running:
        service = [PROGRAM, "-q", "up", "--json", "--listen", f"127.0.0.1:{inner}"]
        said = start(running, service, folder).stdout
        assert said
        token = json.loads(said.readline())["token"]
        start(running, [nginx, "-p", folder, "-e", folder / "error.log", "-c", "nginx.conf"], folder)
        yield {
            **os.environ,
            "HEADGATE_SERVER": f"https://127.0.0.1:{outer}",
            "HEADGATE_API_TOKEN": token,
            "SSL_CERT_FILE": str(folder / "chain.pem"),
        }


def start(running: ExitStack, words: list[object], folder: Path) -> "subprocess.Popen[str]":
    """A process that ends with the test."""
    process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, text=True, cwd=folder)
    running.enter_context(process)
    running.callback(process.terminate)
    return process


def make_certificate(folder: Path) -> None:
    """For 127.0.0.1, signed by itself."""
    words = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=headgate -addext subjectAltName=IP:127.0.0.1"
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "chain.pem")]
    subprocess.run(["openssl", *words.split(), *files], check=True, capture_output=True, timeout=60)


def test_a_command_works_through_it(tmp_path: Path) -> None:
    """Where there is no nginx, only what stands above is checked."""
    if NGINX is None:
        return
    words = [str(PROGRAM), "lock", "run", "file:/x", "--wait", "5", "--", "echo", "under a lock"]
    with proxied(NGINX, tmp_path) as environment:
        deadline = time.monotonic() + 30
        while True:
            done = subprocess.run(words, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
            if done.returncode != 69 or time.monotonic() > deadline:  # 69: nginx has not begun to listen
                break
    assert (done.returncode, done.stdout) == (0, "under a lock\n"), done.stderr
