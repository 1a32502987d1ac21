"""The tables, and nothing else. Everything about states is derived from these rows."""

from __future__ import annotations

from headgate.core.tables.machine import Also as A
from headgate.core.tables.machine import By, Machine, spelt
from headgate.core.tables.machine import Transition as T

LOCK = Machine(
    name="lock",
    start="new",
    rows=(
        # from         event        to           by           also                            meaning
        T("new",       "grant",     "shared",    By.CLIENT,   A.NEW_TOKEN | A.RECORD_HISTORY,   "No lock or waiter blocks a reader.", when="shared is requested"),
        T("new",       "grant",     "exclusive", By.CLIENT,   A.NEW_TOKEN | A.RECORD_HISTORY,   "No lock or waiter blocks a writer.", when="exclusive is requested"),
        T("new",       "refuse",    "refused",   By.CLIENT,   A.COUNT_REFUSAL | A.RECORD_HISTORY, "Another client blocks it, and this client does not wait."),
        T("new",       "wait",      "waiting",   By.CLIENT,   A.JOIN_QUEUE,                   "Another client blocks it; this client joins the end of the wait queue."),
        T("waiting",   "grant",     "shared",    By.CLIENT,   A.NEW_TOKEN | A.LEAVE_QUEUE | A.RECORD_HISTORY, "A reader reaches the front of the queue.", when="shared is requested"),
        T("waiting",   "grant",     "exclusive", By.CLIENT,   A.NEW_TOKEN | A.LEAVE_QUEUE | A.RECORD_HISTORY, "A writer reaches the front of the queue.", when="exclusive is requested"),
        T("waiting",   "refuse",    "refused",   By.CLIENT,   A.LEAVE_QUEUE | A.COUNT_REFUSAL | A.RECORD_HISTORY, "The wait time is over and another client still blocks it."),
        T("waiting",   "withdraw",  "withdrawn", By.CLIENT,   A.LEAVE_QUEUE,                  "The client was interrupted and leaves the queue."),
        T("waiting",   "lapse",     "withdrawn", By.STORE,    A.LEAVE_QUEUE,                  "The waiting process died and leaves the queue."),
        T("shared",    "enter",     "shared",    By.CLIENT,   A.COUNT_HOLD | A.RECORD_HISTORY,  "The same client reads again (re-entrant)."),
        T("shared",    "upgrade",   "exclusive", By.HOLDER,   A.NEW_TOKEN | A.RECORD_HISTORY,   "The sole holder becomes a writer."),
        T("exclusive", "enter",     "exclusive", By.CLIENT,   A.COUNT_HOLD | A.RECORD_HISTORY,  "The same client reads or writes again (re-entrant)."),
        T("exclusive", "downgrade", "shared",    By.HOLDER,   A.SERVE_QUEUE | A.RECORD_HISTORY, "The writer becomes a reader; other readers may join."),
        T("shared",    "leave",     "shared",    By.HOLDER,   A.COUNT_HOLD | A.RECORD_HISTORY,  "The client releases one of its holds."),
        T("exclusive", "leave",     "exclusive", By.HOLDER,   A.COUNT_HOLD | A.RECORD_HISTORY,  "The client releases one of its holds."),
        T("shared",    "hand-over", "shared",    By.HOLDER,   A.NEW_TOKEN | A.RECORD_HISTORY,   "It now belongs to another principal."),
        T("exclusive", "hand-over", "exclusive", By.HOLDER,   A.NEW_TOKEN | A.RECORD_HISTORY,   "It now belongs to another principal."),
        T("shared",    "release",   "released",  By.HOLDER,   A.FREE_RESOURCE | A.RECORD_HISTORY, "The reader releases it."),
        T("exclusive", "release",   "released",  By.HOLDER,   A.FREE_RESOURCE | A.RECORD_HISTORY, "The writer releases it."),
        T("shared",    "expire",    "expired",   By.STORE,    A.FREE_RESOURCE | A.RECORD_HISTORY, "The reader stopped renewing its lease."),
        T("exclusive", "expire",    "expired",   By.STORE,    A.FREE_RESOURCE | A.RECORD_HISTORY, "The writer stopped renewing its lease."),
        T("shared",    "break",     "broken",    By.OPERATOR, A.FREE_RESOURCE | A.RECORD_HISTORY, "An operator broke the lock."),
        T("exclusive", "break",     "broken",    By.OPERATOR, A.FREE_RESOURCE | A.RECORD_HISTORY, "An operator broke the lock."),
    ),
)  # fmt: skip

#: What an interruption changes: the claim counts neither as an attempt nor as a failure.
_INTERRUPT = A.COUNT_INTERRUPTION | A.RESTORE_ATTEMPT | A.CLEAR_INPUTS | A.RECORD_HISTORY

#: A failure after which the chunk is not retried.
_FAIL_FOR_GOOD = A.COUNT_FAILURE | A.OPEN_INCIDENT | A.RECORD_HISTORY

#: A chunk, according to the OUTPUT rows of its job. Where one event has several targets, the first row whose `when` is
#: true applies (core/ledger/rules.py). For a job without outputs the INPUT rows count: with DONE instead of READY, and
#: no row instead of RESUBMIT. Whether a claim is possible at all is decided by the claim table, which looks at inputs,
#: readers and locks too (core/ledger/claims.py).
CHUNK = Machine(
    name="chunk",
    start="absent",
    rows=(
        # from        event         to          by           also                                            meaning
        T("absent",   "publish",    "READY",    By.CLIENT,   A.RECORD_HISTORY,                                 "Data produced elsewhere is available."),
        T("READY",    "publish",    "READY",    By.CLIENT,   A.NOTHING,                                      "It was published already."),
        T("ERROR",    "publish",    "READY",    By.CLIENT,   A.CLEAR_COUNTS | A.RECORD_HISTORY,                "Data produced elsewhere was repaired."),
        T("RESUBMIT", "publish",    "READY",    By.CLIENT,   A.CLEAR_COUNTS | A.RECORD_HISTORY,                "Data produced elsewhere was produced again."),
        T("absent",   "claim",      "RUNNING",  By.CLIENT,   A.NEW_TOKEN | A.COUNT_ATTEMPT | A.RECORD_HISTORY, "A worker starts it for the first time."),
        T("ERROR",    "claim",      "RUNNING",  By.CLIENT,   A.NEW_TOKEN | A.COUNT_ATTEMPT | A.RECORD_HISTORY, "Another attempt, while the retry policy allows it."),
        T("RESUBMIT", "claim",      "RUNNING",  By.CLIENT,   A.NEW_TOKEN | A.COUNT_ATTEMPT | A.RECORD_HISTORY, "It is redone before all other chunks."),
        T("READY",    "claim",      "RUNNING",  By.CLIENT,   A.NEW_TOKEN | A.COUNT_ATTEMPT | A.CLEAR_COUNTS | A.RECORD_HISTORY, "A job without outputs does it again.", when="it was done longer ago than recur"),
        T("RUNNING",  "success",    "READY",    By.WORKER,   A.CLOSE_INCIDENT | A.RECORD_HISTORY,              "It succeeded: others may read it."),
        T("RUNNING",  "fail",       "ERROR",    By.WORKER,   A.COUNT_FAILURE | A.RECORD_HISTORY,               "It failed and may be retried.", when="on_failure is rerun"),
        T("RUNNING",  "fail",       "ERROR",    By.WORKER,   _FAIL_FOR_GOOD,                                 "It failed and has used up its attempts.", when="on_failure is rerun, and max_attempts is reached"),
        T("RUNNING",  "fail",       "HOLD",     By.WORKER,   _FAIL_FOR_GOOD,                                 "It failed and waits for an operator.", when="on_failure is hold"),
        T("RUNNING",  "interrupt",  "HOLD",     By.WORKER,   _INTERRUPT,                                     "Its worker was asked to stop; it is held as before.", when="it was HOLD before the claim"),
        T("RUNNING",  "interrupt",  "PENDING",  By.WORKER,   _INTERRUPT,                                     "Its worker was asked to stop; it is PENDING as before.", when="it was PENDING before the claim"),
        T("RUNNING",  "interrupt",  "other",    By.WORKER,   _INTERRUPT,                                     "Its worker was asked to stop; the unknown status is restored.", when="it had an unknown status before the claim"),
        T("RUNNING",  "interrupt",  "RESUBMIT", By.WORKER,   _INTERRUPT,                                     "Its worker was asked to stop; it is redone before all other chunks.", when="fewer than max_interruptions workers were stopped on it"),
        T("RUNNING",  "interrupt",  "HOLD",     By.WORKER,   _INTERRUPT | A.OPEN_INCIDENT,                   "Its workers are always stopped before they finish; it waits for an operator.", when="max_interruptions workers were stopped on it"),
        T("READY",    "late",       "READY",    By.STORE,    A.RECORD_HISTORY,                                 "An input arrived or changed after it was read: that is noted.", when="on_late is note"),
        T("READY",    "late",       "RESUBMIT", By.STORE,    A.CLEAR_COUNTS | A.CLEAR_INPUTS | A.RECORD_HISTORY, "An input arrived or changed after it was read: it is redone.", when="on_late is redo"),
        T("RUNNING",  "reap",       "ERROR",    By.STORE,    A.NEW_TOKEN | A.COUNT_CRASH | A.RECORD_HISTORY,   "Its worker died; it may be retried.", when="fewer than max_crashes workers crashed on it"),
        T("RUNNING",  "reap",       "HOLD",     By.STORE,    A.NEW_TOKEN | A.COUNT_CRASH | A.OPEN_INCIDENT | A.RECORD_HISTORY, "Its workers keep crashing; it waits for an operator.", when="max_crashes workers crashed on it"),
        T("absent",   "force",      "RUNNING",  By.OPERATOR, A.NEW_TOKEN | A.COUNT_ATTEMPT | A.RECORD_HISTORY, "An operator runs it regardless of the rules."),
        T("READY",    "force",      "RUNNING",  By.OPERATOR, A.NEW_TOKEN | A.COUNT_ATTEMPT | A.RECORD_HISTORY, "An operator runs it once more."),
        T("ERROR",    "force",      "RUNNING",  By.OPERATOR, A.NEW_TOKEN | A.COUNT_ATTEMPT | A.RECORD_HISTORY, "An operator runs it once more."),
        T("RESUBMIT", "force",      "RUNNING",  By.OPERATOR, A.NEW_TOKEN | A.COUNT_ATTEMPT | A.RECORD_HISTORY, "An operator runs it at once."),
        T("HOLD",     "force",      "RUNNING",  By.OPERATOR, A.NEW_TOKEN | A.COUNT_ATTEMPT | A.RECORD_HISTORY, "An operator runs it although it is on hold."),
        T("PENDING",  "force",      "RUNNING",  By.OPERATOR, A.NEW_TOKEN | A.COUNT_ATTEMPT | A.RECORD_HISTORY, "An operator runs it."),
        T("other",    "force",      "RUNNING",  By.OPERATOR, A.NEW_TOKEN | A.COUNT_ATTEMPT | A.RECORD_HISTORY, "An operator runs it."),
        T("RUNNING",  "force",      "RUNNING",  By.OPERATOR, A.NEW_TOKEN | A.COUNT_ATTEMPT | A.RECORD_HISTORY, "An operator claims it from its worker, which died or is overridden (steal)."),
        T("READY",    "resubmit",   "RESUBMIT", By.OPERATOR, A.CLEAR_COUNTS | A.CLEAR_INPUTS | A.RECORD_HISTORY, "It was wrong: redo it first."),
        T("ERROR",    "resubmit",   "RESUBMIT", By.OPERATOR, A.CLEAR_COUNTS | A.CLEAR_INPUTS | A.RECORD_HISTORY, "Retry it first, with reset counts."),
        T("RESUBMIT", "resubmit",   "RESUBMIT", By.OPERATOR, A.CLEAR_COUNTS | A.CLEAR_INPUTS | A.RECORD_HISTORY, "It was resubmitted already."),
        T("HOLD",     "resubmit",   "RESUBMIT", By.OPERATOR, A.CLEAR_COUNTS | A.CLEAR_INPUTS | A.RECORD_HISTORY, "It is redone instead of held.", when="it was named itself"),
        T("HOLD",     "resubmit",   "HOLD",     By.OPERATOR, A.CLEAR_COUNTS | A.CLEAR_INPUTS | A.RECORD_HISTORY, "It stays on hold, and is redone when it is released.", when="it was made from a chunk that was named"),
        T("PENDING",  "resubmit",   "RESUBMIT", By.OPERATOR, A.CLEAR_COUNTS | A.CLEAR_INPUTS | A.RECORD_HISTORY, "It is redone."),
        T("other",    "resubmit",   "RESUBMIT", By.OPERATOR, A.CLEAR_COUNTS | A.CLEAR_INPUTS | A.RECORD_HISTORY, "It is redone."),
        T("RUNNING",  "resubmit",   "RESUBMIT", By.OPERATOR, A.CLEAR_COUNTS | A.CLEAR_INPUTS | A.RECORD_HISTORY, "Redo it: its worker died or is overridden (steal)."),
        T("absent",   "hold",       "HOLD",     By.OPERATOR, A.RECORD_HISTORY,                                 "No job may produce it."),
        T("READY",    "hold",       "HOLD",     By.OPERATOR, A.RECORD_HISTORY,                                 "No job may read it."),
        T("ERROR",    "hold",       "HOLD",     By.OPERATOR, A.RECORD_HISTORY,                                 "No job may retry it."),
        T("RESUBMIT", "hold",       "HOLD",     By.OPERATOR, A.RECORD_HISTORY,                                 "No job may redo it."),
        T("PENDING",  "hold",       "HOLD",     By.OPERATOR, A.RECORD_HISTORY,                                 "No job may read or write it."),
        T("other",    "hold",       "HOLD",     By.OPERATOR, A.RECORD_HISTORY,                                 "No job may read or write it."),
        T("HOLD",     "hold",       "HOLD",     By.OPERATOR, A.NOTHING,                                      "It is held already."),
        T("HOLD",     "unhold",     "absent",   By.OPERATOR, A.RECORD_HISTORY,                                 "The former status is restored.", when="there was no row before"),
        T("HOLD",     "unhold",     "READY",    By.OPERATOR, A.RECORD_HISTORY,                                 "The former status is restored.", when="it was READY before"),
        T("HOLD",     "unhold",     "ERROR",    By.OPERATOR, A.RECORD_HISTORY,                                 "The former status is restored.", when="it was ERROR before"),
        T("HOLD",     "unhold",     "RESUBMIT", By.OPERATOR, A.RECORD_HISTORY,                                 "The former status is restored.", when="it was RESUBMIT before"),
        T("HOLD",     "unhold",     "PENDING",  By.OPERATOR, A.RECORD_HISTORY,                                 "The former status is restored.", when="it was PENDING before"),
        T("HOLD",     "unhold",     "other",    By.OPERATOR, A.RECORD_HISTORY,                                 "The former status is restored.", when="it had an unknown status before"),
        T("RUNNING",  "forget",     "absent",   By.OPERATOR, A.CLEAR_INPUTS | A.CLOSE_INCIDENT | A.RECORD_HISTORY, "The row is removed: its worker died or is overridden (steal)."),
        T("READY",    "forget",     "absent",   By.OPERATOR, A.CLEAR_INPUTS | A.CLOSE_INCIDENT | A.RECORD_HISTORY, "The row is removed."),
        T("ERROR",    "forget",     "absent",   By.OPERATOR, A.CLEAR_INPUTS | A.CLOSE_INCIDENT | A.RECORD_HISTORY, "The row is removed."),
        T("RESUBMIT", "forget",     "absent",   By.OPERATOR, A.CLEAR_INPUTS | A.CLOSE_INCIDENT | A.RECORD_HISTORY, "The row is removed."),
        T("HOLD",     "forget",     "absent",   By.OPERATOR, A.CLEAR_INPUTS | A.CLOSE_INCIDENT | A.RECORD_HISTORY, "The row is removed."),
        T("PENDING",  "forget",     "absent",   By.OPERATOR, A.CLEAR_INPUTS | A.CLOSE_INCIDENT | A.RECORD_HISTORY, "The row is removed."),
        T("other",    "forget",     "absent",   By.OPERATOR, A.CLEAR_INPUTS | A.CLOSE_INCIDENT | A.RECORD_HISTORY, "The row is removed."),
        # These write one row, whatever state the chunk is in.
        T("absent",   "set_status", "RUNNING",  By.OPERATOR, A.NEW_TOKEN | A.RECORD_HISTORY,                   "An operator works on it, without a lease.", when="the status is RUNNING"),
        T("absent",   "set_status", "PENDING",  By.OPERATOR, A.CLOSE_INCIDENT | A.RECORD_HISTORY,                   "An operator sets any status.", when="the status is known, and not RUNNING"),
        T("absent",   "set_status", "other",    By.OPERATOR, A.CLOSE_INCIDENT | A.RECORD_HISTORY,                   "An unknown status is kept, and blocks.", when="the status is unknown"),
    ),
)  # fmt: skip

#: The rows for an item whose owner died: the same in every state in which it can be taken.
_REAP = A.DROP_OWNER | A.COUNT_CRASH | A.RECORD_HISTORY


def _reaped(state: str, only: str = "") -> tuple[T, ...]:
    """The rows for an item whose owner died in that state; an operator's release returns it to that state."""
    return (
        T(state, "reap", state, By.STORE, _REAP, "Its worker died; another one retries it.", when="fewer than max_crashes workers crashed on it", only=only),
        T(state, "reap", "held", By.STORE, _REAP, "Its workers keep crashing; it waits for an operator.", when="max_crashes workers crashed on it", only=only),
        *(() if state == "pending" else (T("held", "release", state, By.OPERATOR, A.RECORD_HISTORY, "An operator allows a retry in the state in which its workers crashed.", when=f"its workers crashed in {state}", needs="its collection is not held", only=only),)),
    )  # fmt: skip


#: Batches of the queue. The texts of `when` and `needs` are decided in core/queue/model.py.
_BATCH_ROWS = (
    # from                event            to                  by           also                          meaning
    T("new",              "submit",        "pending",          By.CLIENT,   A.RECORD_HISTORY,               "A payload was submitted; nothing has been fetched yet."),
    T("pending",          "hold",          "held",             By.OWNER,    A.DROP_OWNER | A.RECORD_HISTORY, "Its collection is on hold: an operator must release it."),
    T("pending",          "start",         "processing",       By.OWNER,    A.DROP_OWNER | A.RECORD_HISTORY, "All its jobs have been created."),
    T("held",             "release",       "pending",          By.OPERATOR, A.RECORD_HISTORY,               "An operator released it.", when="it was held in pending", needs="its collection is not held"),
    T("held",             "delete",        "deleted",          By.OPERATOR, A.DROP_ALL | A.RECORD_HISTORY,  "An operator deleted it; the depositor is not notified.", needs="none of its jobs is taken"),
    T("processing",       "report",        "reporting",        By.DAEMON,   A.RECORD_HISTORY,               "Its last job has completed or failed.", needs="none of its jobs is in processing"),
    T("reporting",        "finish",        "completed",        By.OWNER,    A.DROP_OWNER | A.RECORD_HISTORY, "The depositor was notified: all jobs completed.", when="no job failed"),
    T("reporting",        "finish",        "failed",           By.OWNER,    A.DROP_OWNER | A.RECORD_HISTORY, "The depositor was notified of the failures.", when="a job failed, or it has no jobs"),
    T("failed",           "update-report", "update-reporting", By.OPERATOR, A.RECORD_HISTORY,               "Its repairs have finished: report what changed.", needs="none of its jobs is in processing"),
    T("failed",           "delete",        "deleted",          By.OPERATOR, A.DROP_ALL | A.RECORD_HISTORY,  "An operator deleted it.", needs="none of its jobs is taken"),
    T("update-reporting", "finish",        "completed",        By.OWNER,    A.DROP_OWNER | A.RECORD_HISTORY, "The depositor was notified: now all jobs are completed.", when="no job failed"),
    T("update-reporting", "finish",        "failed",           By.OWNER,    A.DROP_OWNER | A.RECORD_HISTORY, "The depositor was notified of the remaining failures.", when="a job failed, or it has no jobs"),
    T("completed",        "clean",         "cleaned",          By.DAEMON,   A.DROP_ALL | A.RECORD_HISTORY,   "Its retention time is over."),
    T("deleted",          "clean",         "cleaned",          By.DAEMON,   A.DROP_ALL | A.RECORD_HISTORY,   "The deleted batch is removed.", only="mrt-zk"),
    *(row for state in ("pending", "reporting", "update-reporting") for row in _reaped(state)),
)  # fmt: skip

#: The states of ingest jobs in which a consumer may hang.
_STEPS = ("pending", "estimating", "provisioning", "downloading", "processing", "storing", "recording", "notify")
_FORCED = A.DROP_OWNER | A.DROP_OBJECT_LOCKS | A.RECORD_HISTORY

#: Ingest jobs of the queue.
_INGEST_JOB_ROWS = (
    # from            event      to              by           also                                           meaning
    T("new",          "create",  "pending",      By.OWNER,    A.RECORD_HISTORY,                                "The owner of its batch created it."),
    T("pending",      "accept",  "estimating",   By.OWNER,    A.DROP_OWNER | A.RECORD_HISTORY,                 "Its payload is valid; its size is determined next."),
    T("pending",      "hold",    "held",         By.OWNER,    A.DROP_OWNER | A.RECORD_HISTORY,                 "Its collection is on hold: an operator must release it."),
    T("pending",      "fail",    "failed",       By.OWNER,    A.DROP_OWNER | A.RECORD_HISTORY,                 "Its payload is corrupt or does not match its digest; it cannot be resumed."),
    T("held",         "release", "pending",      By.OPERATOR, A.RECORD_HISTORY,                                "An operator released it.", when="it was held in pending", needs="its collection is not held"),
    T("held",         "delete",  "deleted",      By.OPERATOR, A.DROP_ALL | A.RECORD_HISTORY,                   "An operator deleted it."),
    T("estimating",   "finish",  "provisioning", By.OWNER,    A.DROP_OWNER | A.MARK_STEP | A.RECORD_HISTORY,   "Its size is known, or cannot be determined."),
    T("provisioning", "finish",  "downloading",  By.OWNER,    A.DROP_OWNER | A.MARK_STEP | A.RECORD_HISTORY,   "There is enough space for it."),
    T("downloading",  "finish",  "processing",   By.OWNER,    A.DROP_OWNER | A.MARK_STEP | A.RECORD_HISTORY,   "All its files are downloaded and match their checksums."),
    T("downloading",  "fail",    "failed",       By.OWNER,    A.DROP_OWNER | A.RECORD_HISTORY,                 "A file could not be downloaded after all retries."),
    T("processing",   "finish",  "recording",    By.OWNER,    A.DROP_OWNER | A.MARK_STEP | A.RECORD_HISTORY,   "It has an identifier and is stored.", only="design"),
    T("processing",   "finish",  "storing",      By.OWNER,    A.DROP_OWNER | A.MARK_STEP | A.RECORD_HISTORY,   "It has an identifier and is ready to be stored.", only="mrt-zk"),
    T("processing",   "fail",    "failed",       By.OWNER,    A.DROP_OWNER | A.RECORD_HISTORY,                 "It could not be named or stored."),
    T("storing",      "finish",  "recording",    By.OWNER,    A.DROP_OWNER | A.MARK_STEP | A.RECORD_HISTORY,   "It is stored.", only="mrt-zk"),
    T("storing",      "fail",    "failed",       By.OWNER,    A.DROP_OWNER | A.RECORD_HISTORY,                 "It could not be stored.", only="mrt-zk"),
    T("recording",    "finish",  "notify",       By.OWNER,    A.DROP_OWNER | A.MARK_STEP | A.RECORD_HISTORY,   "It is recorded in the inventory; notifications are next."),
    T("recording",    "fail",    "failed",       By.OWNER,    A.DROP_OWNER | A.RECORD_HISTORY,                 "It could not be recorded in the inventory."),
    T("notify",       "finish",  "completed",    By.OWNER,    A.DROP_OWNER | A.MARK_STEP | A.RECORD_HISTORY,   "All registered recipients were notified."),
    T("notify",       "fail",    "failed",       By.OWNER,    A.DROP_OWNER | A.RECORD_HISTORY,                 "The callback failed."),
    T("failed",       "resume",  "downloading",  By.OPERATOR, A.COUNT_RETRY | A.RECORD_HISTORY,                "Retry from the download.", when="the last successful step was provisioning", needs="its batch is processing or failed"),
    T("failed",       "resume",  "processing",   By.OPERATOR, A.COUNT_RETRY | A.RECORD_HISTORY,                "Retry with the downloaded files.", when="the last successful step was downloading", needs="its batch is processing or failed"),
    T("failed",       "resume",  "recording",    By.OPERATOR, A.COUNT_RETRY | A.RECORD_HISTORY,                "Retry recording the stored object.", when="the last successful step was processing", needs="its batch is processing or failed", only="design"),
    T("failed",       "resume",  "storing",      By.OPERATOR, A.COUNT_RETRY | A.RECORD_HISTORY,                "Retry storing it.", when="the last successful step was processing", needs="its batch is processing or failed", only="mrt-zk"),
    T("failed",       "resume",  "recording",    By.OPERATOR, A.COUNT_RETRY | A.RECORD_HISTORY,                "Retry recording the stored object.", when="the last successful step was storing", needs="its batch is processing or failed", only="mrt-zk"),
    T("failed",       "resume",  "notify",       By.OPERATOR, A.COUNT_RETRY | A.RECORD_HISTORY,                "Retry the notification.", when="the last successful step was recording", needs="its batch is processing or failed"),
    T("failed",       "delete",  "deleted",      By.OPERATOR, A.DROP_ALL | A.RECORD_HISTORY,                   "An operator deleted it; it will not be reported."),
    T("completed",    "clean",   "cleaned",      By.DAEMON,   A.DROP_ENTRY | A.RECORD_HISTORY,                 "Its working folder is removed; its record is kept for the report.", only="design"),
    T("deleted",      "clean",   "cleaned",      By.DAEMON,   A.DROP_ALL | A.RECORD_HISTORY,                   "The deleted job is removed.", only="mrt-zk"),
    *(row for state in ("pending", "estimating", "provisioning", "downloading", "processing") for row in _reaped(state)),
    *_reaped("storing", only="mrt-zk"),
    *(row for state in ("recording", "notify") for row in _reaped(state)),
    *(T(state, "force-fail", "failed", By.OPERATOR, _FORCED, "An operator took it from its consumer; the locks of its object are removed.", only="mrt-zk") for state in _STEPS),
)  # fmt: skip

BATCH = Machine("batch", "new", spelt("design", _BATCH_ROWS))
INGEST_JOB = Machine("ingest job", "new", spelt("design", _INGEST_JOB_ROWS))
#: The same for the tree of Merritt's own library.
MERRITT_BATCH = Machine("batch", "new", spelt("mrt-zk", _BATCH_ROWS))
#: There a completed job stays in the queue until its batch is removed.
MERRITT_INGEST_JOB = Machine("ingest job", "new", spelt("mrt-zk", _INGEST_JOB_ROWS), lasting=("completed",))

MACHINES = (LOCK, CHUNK, BATCH, INGEST_JOB)
