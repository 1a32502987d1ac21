"""The table of the last full fault tests, for docs/explanation/promises.md."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headgate.core.tables.describe import table

BEGIN, END = "<!-- evidence: made by `make docs` from torture.json -->", "<!-- end of evidence -->"
HEADINGS = ("test", "what was done", "on", "faults", "calls", "violations", "worst time", "when")
#: Figures of which the maximum is shown if a test has several records; all others are added up.
LARGEST = ("worst", "longest", "slowest", "usual", "lease", "seconds")
#: Every kind of violation that a test counts.
WRONGS = (
    "violations", "overlaps", "stale_writes", "token_faults", "unexplained_losses", "errors", "unready_inputs",
    "double_successes", "stale_reports", "lost", "phantoms", "damaged", "wrong",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """How a test's figures are presented."""

    did: str
    faults: str = ""
    calls: str = "{calls}"
    worst: str = ""


CALL = "{worst_call} s for a call"
ROWS = {
    "test_eight_processes_fight": Row(
        "eight processes fight for three resources with leases of {lease} s, killed and stopped",
        "{kills} SIGKILL ({kills_of_holders} hit a holder), {stops} SIGSTOP ({stops_of_holders})",
        "{grants} grants, {writes} writes",
        "{worst_free} s until a dead holder's lock was free",
    ),
    "test_eight_workers_on_a_chain": Row(
        "eight workers on {chunks} chunks of three jobs, killed and stopped",
        "{kills} SIGKILL ({kills_of_claims} hit a claim), {stops} SIGSTOP ({stops_of_claims})",
        "{claims} claims",
        "{worst_recovery} s until a dead worker's chunk ran again",
    ),
    "test_each_file_is_published_once_and_never_early": Row(
        "{files} files arrive half-written, renamed and again, while watchers are killed", "{faults} SIGKILL",
        "{calls} deliveries",
    ),
    "test_each_chunk_is_made_once_by_a_resident_worker": Row(
        "two resident `headgate work` on {chunks} chunks, disturbed again and again",
        "{faults} SIGKILL, SIGSTOP and signals to stop ({hit} chunks hit)", "{calls} claims",
    ),
    "test_days_are_late_to_the_minute_with_one_incident_each": Row(
        "{days} days go by on a clock that is moved, with two timekeepers that are killed", "{faults} SIGKILL",
        "{calls} late days",
    ),
    "test_no_wake_up_is_lost": Row(
        "a releaser breaks after its commit, before it wakes the next waiter; then a waiter that is to be woken",
        "{faults} SIGKILL and SIGSTOP",
        worst="{worst_unheard} s until the next waiter noticed",
    ),
    "test_recorded_histories_are_linearizable": Row("eight processes, every call recorded; is there an order?"),
    "test_partitions_between_client_and_store": Row(
        "half of eight clients cut off from the store", "{partitions} partitions ({hit} hit)", worst=CALL
    ),
    "test_partitions_between_client_and_service": Row(
        "half of eight clients cut off from the service", "{partitions} partitions ({hit} hit)", worst=CALL
    ),
    "test_partitions_between_service_and_store": Row(
        "the service cut off from its store under four of eight clients", "{partitions} partitions ({hit} hit)",
        worst=CALL,
    ),
    "test_partitions_between_members_of_an_ensemble": Row(
        "one of three members cut off from the others", "{partitions} partitions ({hit} hit)", worst=CALL
    ),
    "test_a_call_ends_when_nothing_passes": Row(
        "silence both ways and one way, half-open connections", "{faults}", worst=CALL
    ),
    "test_a_call_ends_when_its_connection_is_silent_from_some_message_on": Row(
        "a connection goes silent at a message of a transaction", "{faults}", worst=CALL
    ),
    "test_a_client_that_stands_still_inside_a_transaction_keeps_nobody_waiting": Row(
        "a client is stopped inside a transaction", "{faults} SIGSTOP", worst=CALL
    ),
    "test_a_writer_of_a_file_that_stands_still_keeps_nobody_waiting": Row(
        "a writer is stopped inside a transaction", "{faults} SIGSTOP", worst=CALL
    ),
    "test_a_call_ends_when_the_server_stands_still": Row("the server is stopped", "{faults} SIGSTOP", worst=CALL),
    "test_a_server_killed_under_load": Row(
        "the server is killed under seven clients", "{kills} SIGKILL", "{grants} grants",
        "{longest_stall} s for a call",
    ),
    "test_writers_of_a_file_killed_in_their_transactions": Row(
        "writers of one file are killed", "{writers_killed} SIGKILL ({in_a_transaction} in a transaction)",
        "{grants} grants",
    ),
    "test_every_job_ends_once_and_every_batch_is_reported_once": Row(
        "leader and consumers are killed under ingest jobs", "{leaders_killed} leaders, {consumers_killed} consumers",
        "{jobs} jobs",
    ),
    "test_two_sides_of_a_tree_do_nothing_twice_and_lose_nothing": Row(
        "consumers of Headgate and of Merritt's spelling are killed on one tree", "{ours} and {theirs} SIGKILL",
        "{jobs} jobs",
    ),
    "test_a_service_that_is_killed_loses_nothing_and_does_nothing_twice": Row(
        "the service is killed under eight callers", "{kills} SIGKILL", "{answers} answers, {claims} claims"
    ),
    "test_callers_continue_when_one_of_two_replicas_is_killed": Row(
        "two services behind HAProxy, killed in turn under eight callers", "{kills} SIGKILL",
        "{answers} answers, {claims} claims",
    ),
    "test_eight_processes_fight_through_a_pooler": Row(
        "the fight through PgBouncer in transaction mode", "{kills} SIGKILL, {stops} SIGSTOP", "{grants} grants"
    ),
    "test_eight_workers_on_a_chain_through_a_pooler": Row(
        "the chain through PgBouncer in transaction mode", "{kills} SIGKILL, {stops} SIGSTOP", "{claims} claims"
    ),
    "test_nothing_is_lost_while_nothing_is_broken": Row(
        "{seconds} s of work with leases of {lease} s: locks and claims that were lost", "none", worst=CALL
    ),
    "test_a_standby_without_the_newest_commits_takes_over": Row(
        "an asynchronous standby takes over without the newest commits: tokens given twice, stale reports accepted",
        "{faults} failover, {commits_lost} grants lost with it",
    ),
    "test_every_one_of_many_processes_is_served": Row(
        "64 processes on one file, each served in turn", "none", "{pairs} pairs", "{longest} s for a pair"
    ),
    "test_a_recipient_that_is_refused_for_now_is_retried_and_the_other_is_not": Row(
        "a mail server refuses a recipient for now: reports lost or sent twice", "{faults} refusals", ""
    ),
    "test_a_recipient_that_is_refused_for_good_stays_listed_and_is_not_asked_again": Row(
        "a mail server refuses for good: reports that are not listed or cannot be sent again", "{faults} refusal", ""
    ),
    "test_killed_at_a_system_call": Row("killed before each system call on the file", "{kills} SIGKILL", ""),
    "test_a_worker_killed_between_claim_and_report": Row("killed at each message", "{kills} SIGKILL", ""),
    "test_cut_at_a_message": Row("the connection cut at each message", "{cuts} cuts", ""),
    "test_the_ledger_cut_at_a_message": Row("the same for claims and reports", "{cuts} cuts", ""),
    "test_every_byte_is_kept_by_a_bucket_that_fails": Row(
        "an S3 bucket fails one call in ten: {objects} objects, {versions} versions", "{faults} calls failed"
    ),
}  # fmt: skip


class _Figures(dict[str, str]):
    """Figures by their names; one that a record does not have is shown as a dash."""

    def __missing__(self, _key: str) -> str:
        return "-"


def render(path: Path) -> str:
    """The table, from the records of the last full run of each test."""
    records: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    grouped: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for record in records:
        name = record["test"].rpartition("::")[2].partition("[")[0]
        if record["figures"] or not record["passed"]:
            grouped[name, _store(record)].append(record)
    rows, last = [], ""
    for name in [*ROWS, *sorted({name for name, _ in grouped} - set(ROWS))]:
        for (_, store), found in sorted((key, value) for key, value in grouped.items() if key[0] == name):
            rows.append(_row(name, store, found, first=name != last))
            last = name
    return table(HEADINGS, rows) if rows else "No full run has been recorded yet."


def _row(name: str, store: str, records: list[dict[str, Any]], *, first: bool) -> tuple[str, ...]:
    how = ROWS.get(name) or Row(name.removeprefix("test_").replace("_", " "), "{faults}")
    sums = _sum_of(records)
    wrong = sum(sums.get(each, 0) for each in WRONGS)
    figures = _Figures({key: f"{value:,}" for key, value in sums.items()})
    failed = "" if all(each["passed"] for each in records) else " **failed**"
    newest = max(records, key=lambda each: each["date"])
    return (
        f"`{name}`" if first else "",
        how.did.format_map(figures) if first else "",
        store,
        how.faults.format_map(figures),
        how.calls.format_map(figures),
        f"{wrong}{failed}",
        how.worst.format_map(figures),
        f"{newest['date']}, `{newest['commit']}`",
    )


def _sum_of(records: list[dict[str, Any]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for record in records:
        for name, value in record["figures"].items():
            if isinstance(value, bool) or not isinstance(value, int | float):
                continue
            known = found.get(name, 0)
            found[name] = max(known, value) if name.startswith(LARGEST) else known + value
    return found


def _store(record: dict[str, Any]) -> str:
    """Where a test ran: the kind of store in its name or its figures."""
    inner = re.search(r"\[(.*)\]", record["test"])
    words = [record["figures"].get("store", ""), *(inner[1].split("-") if inner else ())]
    names = {"mysql": "MariaDB", "mariadb": "MariaDB", "postgresql": "PostgreSQL", "sqlite": "SQLite"}
    names |= {"zookeeper": "ZooKeeper", "s3": "S3", "service": "service"}
    return next((names[word] for word in words if word in names), "")


def with_evidence(page: str, path: Path) -> str:
    """A page with the current table."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{render(path)}\n\n{END}{after}"
