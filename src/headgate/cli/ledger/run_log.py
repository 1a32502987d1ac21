"""The output of a command on a chunk: it is passed on, and its end is stored with the attempt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.core.ledger.model import Claim
from headgate.core.logs import LogStream
from headgate.service.logs import LogUploads, Tail

if TYPE_CHECKING:
    from headgate.cli.processes.pair import Processes
    from headgate.service.ledger.use_cases import Ledger
    from headgate.settings import Settings

#: The stored outputs, by descriptor. The last line of the last non-empty one is the reason of a failure.
OUTPUTS = {1: LogStream.STDOUT, 2: LogStream.STDERR}


class RunLog:
    """The log of one attempt, from the start of its command to the report."""

    def __init__(self, processes: Processes, ledger: Ledger, claim: Claim, settings: Settings) -> None:
        limit, secrets = settings.log_keep, [*claim.secrets(), *settings.secrets()]
        tails = {number: Tail(stream, limit, secrets) for number, stream in OUTPUTS.items()} if limit else {}
        processes.listeners = {number: tail.write for number, tail in tails.items()}
        self._processes = processes
        self._uploads = LogUploads(
            lambda texts, ended: ledger.keep_log(claim, texts, ended=ended), list(tails.values()),
            f"{claim.job} {claim.dataid}",
        )  # fmt: skip

    def start(self) -> None:
        """Upload new text periodically, so that the log of a worker that dies survives."""
        self._uploads.start()

    def end(self) -> None:
        """Upload the rest before the outcome is reported: a finished chunk has its log."""
        self._uploads.end()

    @property
    def output_error(self) -> str:
        """Why part of the command's output is lost; empty: all of it was passed on."""
        error = self._processes.output_error()
        return "" if error is None else f"its output could not be written: {error.strerror or error}"

    def last_line(self) -> str:
        """The last line of stderr, or of stdout if there is none; without secrets."""
        return self._uploads.last_line()
