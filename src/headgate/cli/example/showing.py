"""The example, running beside the service and the daemons."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headgate.cli.example.folder import HOST, NAME, ExampleFolder
from headgate.cli.example.loading import WHO, Example
from headgate.cli.example.summary import Summary, summarize
from headgate.cli.terminal.failures import exit_code
from headgate.core.errors import HeadgateError
from headgate.core.locks.model import Mode
from headgate.settings import load

if TYPE_CHECKING:
    from headgate.cli.terminal.console import Console
    from headgate.gate import Gate

NOT_WELL = 1


@contextmanager
def shown_by(console: Console, *, once: bool) -> Iterator[Shown]:
    """Prepare the example's folder, and use its settings in the console."""
    if console.url or console.coordination_url:
        raise click.UsageError("the example has a store of its own: leave out --url and --coordination-url")
    folder = ExampleFolder(Path(NAME).absolute())
    with folder.ready() as server:
        console.settings, console.typed = load(folder.settings), folder.command
        yield Shown(console, folder, server, once=once)


class Shown:
    """The example, in a thread of its own."""

    #: Seconds between two rounds of the daemons: a user is waiting for the example.
    interval = 0.5

    def __init__(self, console: Console, folder: ExampleFolder, server: ThreadingHTTPServer, *, once: bool) -> None:
        self._session = console
        self._folder = folder
        self._server = server
        self._once = once
        #: The command's exit code.
        self.code = 0
        self._failed: HeadgateError | None = None

    def note(self, url: str) -> None:
        """Record the address of the service, for users who start the example again."""
        self._folder.remember(service=url)

    @contextmanager
    def running(self, gate: Gate, stop: threading.Event) -> Iterator[None]:
        """Load and report the example while the block runs; with `once`, the block is asked to stop after that."""
        serving = threading.Thread(target=self._server.serve_forever, name="headgate-example-origin", daemon=True)
        loading = threading.Thread(target=self._run, args=(gate, stop), name="headgate-example")
        serving.start()
        loading.start()
        try:
            yield
        finally:
            stop.set()
            loading.join()
            self._server.shutdown()
        if self._failed:
            raise self._failed

    def _run(self, gate: Gate, stop: threading.Event) -> None:
        try:
            with gate.locks.held(WHO, self._folder.origin.as_uri(), Mode.SHARED, note="its web server reads them"):
                self._show(gate, stop)
        except HeadgateError as error:
            self._failed, self.code = error, exit_code(error)
            stop.set()

    def _show(self, gate: Gate, stop: threading.Event) -> None:
        example = Example(gate, self._folder, f"http://{HOST}:{self._server.server_port}", stop, self._session.say)
        example.load()
        if example.new:
            self._session.say(f"loading the example into {self._folder.path} …")
        example.finish()
        if stop.is_set():
            return
        self._print(summarize(gate, self._folder, example, once=self._once))
        look = self._folder.command("status")
        self._session.say(f"to look around: {look}; in place of status: data grid, ingest jobs, history")
        if self._once:
            stop.set()
            return
        self._session.say("the example runs until you press Ctrl-C")
        example.go_on()

    def _print(self, found: Summary) -> None:
        self.code = NOT_WELL if found.problems else 0
        self._session.answer({**found.document, "well": not found.problems}, lambda: f"{found.text}\n{found.verdict}")
