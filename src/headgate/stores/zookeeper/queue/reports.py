"""Status-reports. A node holds at most a megabyte, which is fewer ids than a batch may have jobs: the rest of a long
report is in separate parts, written before it and named by their content.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from headgate.core.queue.model import Report
from headgate.stores.zookeeper.ensemble.asking import make, read, remove
from headgate.stores.zookeeper.ensemble.session import ZkSessions
from headgate.stores.zookeeper.queue.records import ItemNodes
from headgate.stores.zookeeper.queue.tree import QueueTree, Unreadable, decode, encode

#: Number of ids in one node.
MOST_IDS = 40_000


@dataclass(eq=False)
class StatusReports:
    """Writes and reads the reports of one queue."""

    _sessions: ZkSessions
    _tree: QueueTree

    def content(self, report: Report) -> dict[str, Any]:
        """The content of a batch's status-report."""
        first, *rest = _parts(report)
        at = {} if report.at is None else {"last_modified": self._tree.time(report.at)}
        return {**at, **_lists(first), **({"continued": _name(report), "parts": len(rest)} if rest else {})}

    def write_rest(self, batch_id: str, report: Report | None) -> None:
        """The parts of a long report, written before the status-report refers to them."""
        for number, part in enumerate(() if report is None else _parts(report)):
            if report and number == 1:  # For a batch of another program nothing was recorded yet.
                self._sessions.base.ask(make(self._tree.made(batch_id), encode({})))
            if report and number:
                path = f"{self._tree.made(batch_id)}/{_name(report)}-{number}"
                self._sessions.base.ask(make(path, encode(_lists(part))))

    def drop_others(self, batch_id: str, report: Report | None) -> None:
        """The parts of earlier reports."""
        if report is None:
            return
        folder = self._tree.made(batch_id)
        old = [name for name in self._sessions.base.names(folder) if not name.startswith(_name(report))]
        self._sessions.base.ask(*(remove(f"{folder}/{name}") for name in old))

    def whole(self, record: ItemNodes) -> ItemNodes:
        """A batch with all of its report."""
        report = record.batch.report
        if report is None or not record.parts:
            return record
        for number in range(1, record.parts + 1):
            path = f"{self._tree.made(record.item.id)}/{record.parts_name}-{number}"
            found: Any = self._sessions.base.ask(read(path))[0]
            if isinstance(found, Exception):
                raise Unreadable(f"part {number} of its status-report is missing")
            more = decode(found[0], "status-report")
            report = replace(
                report,
                failed=(*report.failed, *more["failed_jobs"]),
                successful=(*report.successful, *more["successful_jobs"]),
            )
        return replace(record, item=replace(record.batch, report=report))


def _parts(report: Report) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Failed and successful jobs, in portions."""
    failed = len(report.failed)
    for start in range(0, max(failed + len(report.successful), 1), MOST_IDS):
        end = start + MOST_IDS
        yield report.failed[start:end], report.successful[max(start - failed, 0) : max(end - failed, 0)]


def _lists(part: tuple[tuple[str, ...], tuple[str, ...]]) -> dict[str, Any]:
    return {"failed_jobs": list(part[0]), "successful_jobs": list(part[1])}


def _name(report: Report) -> str:
    """The digest of a report's parts: the same for the same lists."""
    return hashlib.sha256("\n".join((*report.failed, "", *report.successful)).encode()).hexdigest()[:16]
