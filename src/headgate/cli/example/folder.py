"""The folder of the example: its store, its files, and the web server that offers them."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import sys
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from string import Template
from typing import Any

from headgate import private
from headgate.core.errors import BadValue, Refused

NAME = "headgate-example"
FILES = Path(__file__).parent / "files"
HOST = "127.0.0.1"
MANIFEST = "#%checkm_0.7\n#%profile | http://uc3.cdlib.org/registry/ingest/manifest/{kind}\n{rows}\n#%eof\n"


class ExampleFolder:
    """The folder, created at the first start and reused by later ones."""

    def __init__(self, path: Path) -> None:
        self.path = path
        #: The files that this web server offers.
        self.origin = path / "origin"

    @property
    def settings(self) -> dict[str, str]:
        """The settings of the example, which override all others."""
        return {
            "url": f"sqlite:///{self.path / 'headgate.db'}",
            "coordination_url": "",
            "server": "",
            "work_folder": str(self.path / "headgate-work"),
            "profiles_folder": str(self.path / "headgate-profiles"),
            "storage_root": str(self.path / "headgate-storage"),
            "space_threshold": "0",
        }

    def command(self, *words: str) -> str:
        """Return a command line for the example's store that works in any shell."""
        return f"(cd {self.quoted_path} && {self.program} {shlex.join(words)})"

    @property
    def quoted_path(self) -> str:
        """The folder, as a shell reads it."""
        return shlex.quote(str(self.path))

    @property
    def program(self) -> str:
        """The command to call headgate in this folder, even from a new shell: only its name if every shell finds it."""
        started, found = Path(sys.argv[0]).absolute(), shutil.which("headgate")
        environment = os.environ.get("VIRTUAL_ENV")  # A new shell has not activated the virtual environment.
        if found and not (environment and Path(found).is_relative_to(environment)):
            return "headgate"
        if started.name == "__main__.py":
            return f"{shlex.quote(sys.executable)} -m headgate"
        beside = started.is_relative_to(self.path.parent)
        return shlex.quote(os.path.relpath(started, self.path) if beside else str(started))

    @contextmanager
    def ready(self) -> Iterator[ThreadingHTTPServer]:
        """Create what is missing. Yields the web server, before it is started."""
        try:
            private.make_root(self.path, None)
            server = self._server()
            self._write(server.server_port)
        except OSError as error:
            why = f"cannot be used for the example: {error.strerror or error}"
            raise BadValue("folder", str(self.path), why) from error
        with server:
            yield server

    # ---------------------------------------------------------------- the notes

    def remembered(self) -> dict[str, Any]:
        """The notes of earlier starts."""
        try:
            found: dict[str, Any] = json.loads((self.path / "example.json").read_bytes())
        except FileNotFoundError:
            return {}
        except ValueError:
            raise BadValue("folder", str(self.path), "has an unreadable example.json; remove the folder") from None
        return found

    def remember(self, **more: Any) -> None:
        """Record it for the next start."""
        noted = self.path / "example.json.new"
        private.write(noted, json.dumps({**self.remembered(), **more}, indent=1) + "\n")
        noted.replace(self.path / "example.json")

    # ---------------------------------------------------------------- files

    def _server(self) -> ThreadingHTTPServer:
        """On its previous port, because submitted URLs contain it."""
        port = int(self.remembered().get("port", 0))

        def handler(*args: Any) -> SimpleHTTPRequestHandler:
            return _Quiet(*args, directory=str(self.origin))

        try:
            return ThreadingHTTPServer((HOST, port), handler)
        except OSError as error:
            service = self.remembered().get("service", "")
            sign_in = self.command("token", "sign-in", "--at", service)
            raise Refused(
                f"the example in {self.path} is running already, at {service}\nto sign in: {sign_in}\nIf not, "
                f"another program has its port {HOST}:{port} ({error.strerror}): remove the folder to start over"
            ) from error

    def _write(self, port: int) -> None:
        if not self.origin.is_dir():
            making = self.path / "origin.new"
            shutil.rmtree(making, ignore_errors=True)
            _copy_tree(FILES / "collection", making)
            _write_payloads(making, f"http://{HOST}:{port}")
            making.rename(self.origin)
        for each in ("pipeline.toml", "count.sh", "longest.sh", "kinds.txt"):
            if not (self.path / each).exists():  # Users may have changed it.
                text = (FILES / each).read_text(encoding="utf-8")
                private.write(self.path / each, text.replace("@PYTHON@", shlex.quote(sys.executable)))
        profiles = Path(self.settings["profiles_folder"])
        private.make_folder(profiles)
        for source in (FILES / "profiles").iterdir():
            private.write(profiles / source.name, Template(source.read_text()).substitute(port=port))
        lines = [f"{name} = {json.dumps(value)}" for name, value in self.settings.items()]
        private.write(self.path / "headgate.toml", "\n".join(lines) + "\n")
        self.remember(port=port)


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Do not print each request."""


def _copy_tree(source: Path, target: Path) -> None:
    """Copy the content of a folder; the file modes of the installation are not copied."""
    private.make_folder(target)
    for each in source.iterdir():
        (_copy_tree if each.is_dir() else private.copy)(each, target / each.name)


def _write_payloads(origin: Path, address: str) -> None:
    """Create manifests of the files, a container, and a file that is damaged after its manifest was written."""
    for name in ("pilot-log", "tide-table", "chart"):
        _object_manifest(origin, address, name)
    said = {
        "pilot-log": ("", "", ""),
        "tide-table": ("The harbour office", "Tide table", "1871"),
        "chart": ("A surveyor", "Chart of the harbour", "1869"),
    }
    rows = [
        f"{address}/{name}.checkm |  |  |  |  | {name}.checkm |  | {name} | {' | '.join(words)}"
        for name, words in said.items()
    ]
    _save(origin / "harbour.checkm", "mrt-batch-manifest", rows)
    _copy_tree(origin / "tide-table", origin / "torn")
    _object_manifest(origin, address, "torn")
    tides = origin / "torn" / "tides.csv"
    private.write(tides, tides.read_bytes()[:-2] + b"?\n")
    _object_manifest(origin, address, "tide-table", "attic")
    with private.opened(origin / "letters.zip", "wb") as file, zipfile.ZipFile(file, "w") as archive:
        for letter in sorted((FILES / "letters").iterdir()):
            archive.write(letter, letter.name)


def _object_manifest(origin: Path, address: str, name: str, target: str = "") -> None:
    rows = []
    for file in sorted((origin / name).iterdir()):
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        rows.append(f"{address}/{name}/{file.name} | sha-256 | {digest} | {file.stat().st_size} |  | {file.name}")
    _save(origin / f"{target or name}.checkm", "mrt-ingest-manifest", rows)


def _save(path: Path, kind: str, rows: Sequence[str]) -> None:
    private.write(path, MANIFEST.format(kind=kind, rows="\n".join(rows)))
