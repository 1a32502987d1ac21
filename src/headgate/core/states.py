"""The tables, and nothing else. Everything about states is derived from these rows."""

from __future__ import annotations

from headgate.core.machine import Also as A
from headgate.core.machine import By, Machine, spelt
from headgate.core.machine import Transition as T

LOCK = Machine(
    name="lock",
    start="new",
    rows=(
        # from         event        to           by           also                            meaning
        T("new",       "grant",     "shared",    By.CLIENT,   A.NEW_TOKEN | A.TELL_HISTORY,   "Nothing stands in the way of a reader.", when="shared is wanted"),
        T("new",       "grant",     "exclusive", By.CLIENT,   A.NEW_TOKEN | A.TELL_HISTORY,   "Nothing stands in the way of a writer.", when="exclusive is wanted"),
        T("new",       "refuse",    "refused",   By.CLIENT,   A.COUNT_REFUSAL | A.TELL_HISTORY, "Somebody is in the way, and the client does not wait."),
        T("new",       "wait",      "waiting",   By.CLIENT,   A.JOIN_QUEUE,                   "Somebody is in the way; the client joins the end of the queue."),
        T("waiting",   "grant",     "shared",    By.CLIENT,   A.NEW_TOKEN | A.LEAVE_QUEUE | A.TELL_HISTORY, "A reader's turn has come.", when="shared is wanted"),
        T("waiting",   "grant",     "exclusive", By.CLIENT,   A.NEW_TOKEN | A.LEAVE_QUEUE | A.TELL_HISTORY, "A writer's turn has come.", when="exclusive is wanted"),
        T("waiting",   "refuse",    "refused",   By.CLIENT,   A.LEAVE_QUEUE | A.COUNT_REFUSAL | A.TELL_HISTORY, "The time to wait is over, and somebody is still in the way."),
        T("waiting",   "withdraw",  "withdrawn", By.CLIENT,   A.LEAVE_QUEUE,                  "The client gives up before its time: it was interrupted."),
        T("waiting",   "lapse",     "withdrawn", By.STORE,    A.LEAVE_QUEUE,                  "The waiting process died: it leaves the queue."),
        T("shared",    "enter",     "shared",    By.CLIENT,   A.COUNT_HOLD | A.TELL_HISTORY,  "The same client reads once more (re-entrant)."),
        T("shared",    "upgrade",   "exclusive", By.HOLDER,   A.NEW_TOKEN | A.TELL_HISTORY,   "The only holder goes on as a writer."),
        T("exclusive", "enter",     "exclusive", By.CLIENT,   A.COUNT_HOLD | A.TELL_HISTORY,  "The same client reads or writes once more (re-entrant)."),
        T("exclusive", "downgrade", "shared",    By.HOLDER,   A.TELL_HISTORY,                 "The writer goes on as a reader; others may join it."),
        T("shared",    "leave",     "shared",    By.HOLDER,   A.COUNT_HOLD | A.TELL_HISTORY,  "One of several holds of the same client ends."),
        T("exclusive", "leave",     "exclusive", By.HOLDER,   A.COUNT_HOLD | A.TELL_HISTORY,  "One of several holds of the same client ends."),
        T("shared",    "hand-over", "shared",    By.HOLDER,   A.NEW_TOKEN | A.TELL_HISTORY,   "It belongs to another principal from now on."),
        T("exclusive", "hand-over", "exclusive", By.HOLDER,   A.NEW_TOKEN | A.TELL_HISTORY,   "It belongs to another principal from now on."),
        T("shared",    "release",   "released",  By.HOLDER,   A.FREE_RESOURCE | A.TELL_HISTORY, "The reader is done."),
        T("exclusive", "release",   "released",  By.HOLDER,   A.FREE_RESOURCE | A.TELL_HISTORY, "The writer is done."),
        T("shared",    "expire",    "expired",   By.STORE,    A.FREE_RESOURCE | A.TELL_HISTORY, "The reader no longer renews its lease: it died."),
        T("exclusive", "expire",    "expired",   By.STORE,    A.FREE_RESOURCE | A.TELL_HISTORY, "The writer no longer renews its lease: it died."),
        T("shared",    "break",     "broken",    By.OPERATOR, A.FREE_RESOURCE | A.TELL_HISTORY, "An operator took the lock away."),
        T("exclusive", "break",     "broken",    By.OPERATOR, A.FREE_RESOURCE | A.TELL_HISTORY, "An operator took the lock away."),
    ),
)  # fmt: skip

#: A chunk, as the OUTPUT rows of its job say (the INPUT rows, for a job that makes nothing). Whether a claim is
#: possible at all is decided by the claim table, which looks at inputs, readers and locks too (core/claims.py).
CHUNK = Machine(
    name="chunk",
    start="absent",
    rows=(
        # from        event         to          by           also                                            meaning
        T("absent",   "publish",    "READY",    By.CLIENT,   A.TELL_HISTORY,                                 "Data made elsewhere is there."),
        T("READY",    "publish",    "READY",    By.CLIENT,   A.NOTHING,                                      "It was published already."),
        T("ERROR",    "publish",    "READY",    By.CLIENT,   A.TELL_HISTORY,                                 "Data made elsewhere was mended."),
        T("RESUBMIT", "publish",    "READY",    By.CLIENT,   A.TELL_HISTORY,                                 "Data made elsewhere was made again."),
        T("absent",   "claim",      "RUNNING",  By.CLIENT,   A.NEW_TOKEN | A.COUNT_ATTEMPT | A.TELL_HISTORY, "A worker makes it for the first time."),
        T("ERROR",    "claim",      "RUNNING",  By.CLIENT,   A.NEW_TOKEN | A.COUNT_ATTEMPT | A.TELL_HISTORY, "Another try, while the retry policy allows it."),
        T("RESUBMIT", "claim",      "RUNNING",  By.CLIENT,   A.NEW_TOKEN | A.COUNT_ATTEMPT | A.TELL_HISTORY, "It is made again, before all others."),
        T("RUNNING",  "success",    "READY",    By.WORKER,   A.TELL_HISTORY,                                 "It is made: others may read it."),
        T("RUNNING",  "fail",       "ERROR",    By.WORKER,   A.COUNT_FAILURE | A.TELL_HISTORY,               "It could not be made; it may be tried again.", when="on_failure is rerun"),
        T("RUNNING",  "fail",       "HOLD",     By.WORKER,   A.COUNT_FAILURE | A.TELL_HISTORY,               "It could not be made; a person must look.", when="on_failure is hold"),
        T("RUNNING",  "reap",       "ERROR",    By.STORE,    A.NEW_TOKEN | A.COUNT_CRASH | A.TELL_HISTORY,   "Its worker died; it may be tried again.", when="fewer than max_crashes died on it"),
        T("RUNNING",  "reap",       "HOLD",     By.STORE,    A.NEW_TOKEN | A.COUNT_CRASH | A.TELL_HISTORY,   "It kills its workers; a person must look.", when="max_crashes died on it"),
        T("absent",   "force",      "RUNNING",  By.OPERATOR, A.NEW_TOKEN | A.COUNT_ATTEMPT | A.TELL_HISTORY, "Support runs it, whatever the rules say."),
        T("READY",    "force",      "RUNNING",  By.OPERATOR, A.NEW_TOKEN | A.COUNT_ATTEMPT | A.TELL_HISTORY, "Support runs it once more."),
        T("ERROR",    "force",      "RUNNING",  By.OPERATOR, A.NEW_TOKEN | A.COUNT_ATTEMPT | A.TELL_HISTORY, "Support runs it once more."),
        T("RESUBMIT", "force",      "RUNNING",  By.OPERATOR, A.NEW_TOKEN | A.COUNT_ATTEMPT | A.TELL_HISTORY, "Support runs it at once."),
        T("HOLD",     "force",      "RUNNING",  By.OPERATOR, A.NEW_TOKEN | A.COUNT_ATTEMPT | A.TELL_HISTORY, "Support runs it although it is held."),
        T("PENDING",  "force",      "RUNNING",  By.OPERATOR, A.NEW_TOKEN | A.COUNT_ATTEMPT | A.TELL_HISTORY, "Support runs it."),
        T("other",    "force",      "RUNNING",  By.OPERATOR, A.NEW_TOKEN | A.COUNT_ATTEMPT | A.TELL_HISTORY, "Support runs it."),
        T("RUNNING",  "force",      "RUNNING",  By.OPERATOR, A.NEW_TOKEN | A.COUNT_ATTEMPT | A.TELL_HISTORY, "Support takes it from its worker: dead, or to be robbed (steal)."),
        T("READY",    "resubmit",   "RESUBMIT", By.OPERATOR, A.CLEAR_COUNTS | A.CLEAR_INPUTS | A.TELL_HISTORY, "It was wrong: make it again, first."),
        T("ERROR",    "resubmit",   "RESUBMIT", By.OPERATOR, A.CLEAR_COUNTS | A.CLEAR_INPUTS | A.TELL_HISTORY, "Try it again, first, with new counts."),
        T("RESUBMIT", "resubmit",   "RESUBMIT", By.OPERATOR, A.CLEAR_COUNTS | A.CLEAR_INPUTS | A.TELL_HISTORY, "It was to be made again already."),
        T("HOLD",     "resubmit",   "RESUBMIT", By.OPERATOR, A.CLEAR_COUNTS | A.CLEAR_INPUTS | A.TELL_HISTORY, "Instead of being held it is made again."),
        T("PENDING",  "resubmit",   "RESUBMIT", By.OPERATOR, A.CLEAR_COUNTS | A.CLEAR_INPUTS | A.TELL_HISTORY, "It is made again."),
        T("other",    "resubmit",   "RESUBMIT", By.OPERATOR, A.CLEAR_COUNTS | A.CLEAR_INPUTS | A.TELL_HISTORY, "It is made again."),
        T("RUNNING",  "resubmit",   "RESUBMIT", By.OPERATOR, A.CLEAR_COUNTS | A.CLEAR_INPUTS | A.TELL_HISTORY, "Its worker is dead, or to be robbed (steal): make it again."),
        T("absent",   "hold",       "HOLD",     By.OPERATOR, A.TELL_HISTORY,                                 "Nobody shall make it."),
        T("READY",    "hold",       "HOLD",     By.OPERATOR, A.TELL_HISTORY,                                 "Nobody shall read it."),
        T("ERROR",    "hold",       "HOLD",     By.OPERATOR, A.TELL_HISTORY,                                 "Nobody shall try it again."),
        T("RESUBMIT", "hold",       "HOLD",     By.OPERATOR, A.TELL_HISTORY,                                 "Nobody shall make it again."),
        T("PENDING",  "hold",       "HOLD",     By.OPERATOR, A.TELL_HISTORY,                                 "Nobody shall touch it."),
        T("other",    "hold",       "HOLD",     By.OPERATOR, A.TELL_HISTORY,                                 "Nobody shall touch it."),
        T("HOLD",     "hold",       "HOLD",     By.OPERATOR, A.NOTHING,                                      "It is held already."),
        T("HOLD",     "unhold",     "absent",   By.OPERATOR, A.TELL_HISTORY,                                 "As before.", when="there was no row before"),
        T("HOLD",     "unhold",     "READY",    By.OPERATOR, A.TELL_HISTORY,                                 "As before.", when="it was READY before"),
        T("HOLD",     "unhold",     "ERROR",    By.OPERATOR, A.TELL_HISTORY,                                 "As before.", when="it was ERROR before"),
        T("HOLD",     "unhold",     "RESUBMIT", By.OPERATOR, A.TELL_HISTORY,                                 "As before.", when="it was RESUBMIT before"),
        T("HOLD",     "unhold",     "PENDING",  By.OPERATOR, A.TELL_HISTORY,                                 "As before.", when="it was PENDING before"),
        T("HOLD",     "unhold",     "other",    By.OPERATOR, A.TELL_HISTORY,                                 "As before.", when="it was another word before"),
        T("RUNNING",  "forget",     "absent",   By.OPERATOR, A.CLEAR_INPUTS | A.TELL_HISTORY,                "Its worker is dead, or to be robbed (steal): as if it never was."),
        T("READY",    "forget",     "absent",   By.OPERATOR, A.CLEAR_INPUTS | A.TELL_HISTORY,                "As if it never was."),
        T("ERROR",    "forget",     "absent",   By.OPERATOR, A.CLEAR_INPUTS | A.TELL_HISTORY,                "As if it never was."),
        T("RESUBMIT", "forget",     "absent",   By.OPERATOR, A.CLEAR_INPUTS | A.TELL_HISTORY,                "As if it never was."),
        T("HOLD",     "forget",     "absent",   By.OPERATOR, A.CLEAR_INPUTS | A.TELL_HISTORY,                "As if it never was."),
        T("PENDING",  "forget",     "absent",   By.OPERATOR, A.CLEAR_INPUTS | A.TELL_HISTORY,                "As if it never was."),
        T("other",    "forget",     "absent",   By.OPERATOR, A.CLEAR_INPUTS | A.TELL_HISTORY,                "As if it never was."),
        T("absent",   "set_status", "PENDING",  By.OPERATOR, A.TELL_HISTORY,                                 "Support's hand, from any status to any.", when="the word is known"),
        T("absent",   "set_status", "other",    By.OPERATOR, A.TELL_HISTORY,                                 "A word that nobody knows is kept, and blocks.", when="nobody knows the word"),
    ),
)  # fmt: skip

#: What happens to an item whose owner died: the same in every state in which it may be taken.
_REAP = A.DROP_OWNER | A.COUNT_CRASH | A.TELL_HISTORY


def _reaped(state: str, only: str = "") -> tuple[T, ...]:
    """The rows of an item whose owner died in that state; an operator's release brings it back there."""
    return (
        T(state, "reap", state, By.STORE, _REAP, "Its worker died; another one tries it.", when="fewer than max_crashes died on it", only=only),
        T(state, "reap", "held", By.STORE, _REAP, "It kills its workers; a person must look.", when="max_crashes died on it", only=only),
        *(() if state == "pending" else (T("held", "release", state, By.OPERATOR, A.TELL_HISTORY, "A person lets it be tried again where its workers died.", when=f"its workers died in {state}", needs="its collection is not held", only=only),)),
    )  # fmt: skip


#: Batches of the queue (seed 004). The texts of `when` and `needs` are decided in core/queue.py.
_BATCH_ROWS = (
    # from                event            to                  by           also                          meaning
    T("new",              "submit",        "pending",          By.CLIENT,   A.TELL_HISTORY,               "A payload was handed in; nothing was fetched yet."),
    T("pending",          "hold",          "held",             By.OWNER,    A.DROP_OWNER | A.TELL_HISTORY, "Its collection is held: a person must release it."),
    T("pending",          "start",         "processing",       By.OWNER,    A.DROP_OWNER | A.TELL_HISTORY, "All its jobs are made."),
    T("held",             "release",       "pending",          By.OPERATOR, A.TELL_HISTORY,               "A person released it.", when="it was held in pending", needs="its collection is not held"),
    T("held",             "delete",        "deleted",          By.OPERATOR, A.DROP_ALL | A.TELL_HISTORY,  "A person gave it up; the depositor is not told.", needs="none of its jobs is taken"),
    T("processing",       "report",        "reporting",        By.DAEMON,   A.TELL_HISTORY,               "Its last job has completed or failed.", needs="none of its jobs is in processing"),
    T("reporting",        "finish",        "completed",        By.OWNER,    A.DROP_OWNER | A.TELL_HISTORY, "The depositor was told: all is well.", when="no job failed"),
    T("reporting",        "finish",        "failed",           By.OWNER,    A.DROP_OWNER | A.TELL_HISTORY, "The depositor was told what failed.", when="a job failed, or there never was one"),
    T("failed",           "update-report", "update-reporting", By.OPERATOR, A.TELL_HISTORY,               "Attempts to mend it have ended: report what changed.", needs="none of its jobs is in processing"),
    T("failed",           "delete",        "deleted",          By.OPERATOR, A.DROP_ALL | A.TELL_HISTORY,  "A person gave it up.", needs="none of its jobs is taken"),
    T("update-reporting", "finish",        "completed",        By.OWNER,    A.DROP_OWNER | A.TELL_HISTORY, "The depositor was told: now all is well.", when="no job failed"),
    T("update-reporting", "finish",        "failed",           By.OWNER,    A.DROP_OWNER | A.TELL_HISTORY, "The depositor was told what is still failed.", when="a job failed, or there never was one"),
    T("completed",        "clean",         "cleaned",          By.DAEMON,   A.DROP_ALL | A.TELL_HISTORY,   "It was kept long enough."),
    T("deleted",          "clean",         "cleaned",          By.DAEMON,   A.DROP_ALL | A.TELL_HISTORY,   "What a person deleted is removed.", only="mrt-zk"),
    *(row for state in ("pending", "reporting", "update-reporting") for row in _reaped(state)),
)  # fmt: skip

#: Ingest jobs of the queue (seed 004).
_INGEST_JOB_ROWS = (
    # from            event      to              by           also                                           meaning
    T("new",          "create",  "pending",      By.OWNER,    A.TELL_HISTORY,                                "The owner of its batch made it."),
    T("pending",      "accept",  "estimating",   By.OWNER,    A.DROP_OWNER | A.TELL_HISTORY,                 "Its payload is in order; sizes are next."),
    T("pending",      "hold",    "held",         By.OWNER,    A.DROP_OWNER | A.TELL_HISTORY,                 "Its collection is held: a person must release it."),
    T("pending",      "fail",    "failed",       By.OWNER,    A.DROP_OWNER | A.TELL_HISTORY,                 "Its payload is corrupt, or is not what the digest says; it cannot be resumed."),
    T("held",         "release", "pending",      By.OPERATOR, A.TELL_HISTORY,                                "A person released it.", when="it was held in pending", needs="its collection is not held"),
    T("held",         "delete",  "deleted",      By.OPERATOR, A.DROP_ALL | A.TELL_HISTORY,                   "A person gave it up."),
    T("estimating",   "finish",  "provisioning", By.OWNER,    A.DROP_OWNER | A.MARK_STEP | A.TELL_HISTORY,   "Its size is known, or known to be unknown."),
    T("provisioning", "finish",  "downloading",  By.OWNER,    A.DROP_OWNER | A.MARK_STEP | A.TELL_HISTORY,   "There is room for it."),
    T("downloading",  "finish",  "processing",   By.OWNER,    A.DROP_OWNER | A.MARK_STEP | A.TELL_HISTORY,   "All its files are here, and are what was promised."),
    T("downloading",  "fail",    "failed",       By.OWNER,    A.DROP_OWNER | A.TELL_HISTORY,                 "A file could not be fetched after all tries."),
    T("processing",   "finish",  "recording",    By.OWNER,    A.DROP_OWNER | A.MARK_STEP | A.TELL_HISTORY,   "It is named and stored.", only="design"),
    T("processing",   "finish",  "storing",      By.OWNER,    A.DROP_OWNER | A.MARK_STEP | A.TELL_HISTORY,   "It is named and ready to be stored.", only="mrt-zk"),
    T("processing",   "fail",    "failed",       By.OWNER,    A.DROP_OWNER | A.TELL_HISTORY,                 "It could not be named or stored."),
    T("storing",      "finish",  "recording",    By.OWNER,    A.DROP_OWNER | A.MARK_STEP | A.TELL_HISTORY,   "It is stored.", only="mrt-zk"),
    T("storing",      "fail",    "failed",       By.OWNER,    A.DROP_OWNER | A.TELL_HISTORY,                 "It could not be stored.", only="mrt-zk"),
    T("recording",    "finish",  "notify",       By.OWNER,    A.DROP_OWNER | A.MARK_STEP | A.TELL_HISTORY,   "It is in the inventory: now it may be told."),
    T("recording",    "fail",    "failed",       By.OWNER,    A.DROP_OWNER | A.TELL_HISTORY,                 "It could not be put into the inventory."),
    T("notify",       "finish",  "completed",    By.OWNER,    A.DROP_OWNER | A.MARK_STEP | A.TELL_HISTORY,   "Whoever wants to know of it was told."),
    T("notify",       "fail",    "failed",       By.OWNER,    A.DROP_OWNER | A.TELL_HISTORY,                 "The callback failed."),
    T("failed",       "resume",  "downloading",  By.OPERATOR, A.COUNT_RETRY | A.TELL_HISTORY,                "Another try from the download on.", when="the last good step was provisioning", needs="its batch is processing or failed"),
    T("failed",       "resume",  "processing",   By.OPERATOR, A.COUNT_RETRY | A.TELL_HISTORY,                "Another try with the files that are here.", when="the last good step was downloading", needs="its batch is processing or failed"),
    T("failed",       "resume",  "recording",    By.OPERATOR, A.COUNT_RETRY | A.TELL_HISTORY,                "Another try to record what is stored.", when="the last good step was processing", needs="its batch is processing or failed", only="design"),
    T("failed",       "resume",  "storing",      By.OPERATOR, A.COUNT_RETRY | A.TELL_HISTORY,                "Another try to store it.", when="the last good step was processing", needs="its batch is processing or failed", only="mrt-zk"),
    T("failed",       "resume",  "recording",    By.OPERATOR, A.COUNT_RETRY | A.TELL_HISTORY,                "Another try to record what is stored.", when="the last good step was storing", needs="its batch is processing or failed", only="mrt-zk"),
    T("failed",       "resume",  "notify",       By.OPERATOR, A.COUNT_RETRY | A.TELL_HISTORY,                "Another try to tell of it.", when="the last good step was recording", needs="its batch is processing or failed"),
    T("failed",       "delete",  "deleted",      By.OPERATOR, A.DROP_ALL | A.TELL_HISTORY,                   "A person gave it up; it will not be reported."),
    T("completed",    "clean",   "cleaned",      By.DAEMON,   A.DROP_ENTRY | A.TELL_HISTORY,                 "Its working folder is removed; it is kept to be reported."),
    T("deleted",      "clean",   "cleaned",      By.DAEMON,   A.DROP_ALL | A.TELL_HISTORY,                   "What a person deleted is removed.", only="mrt-zk"),
    *(row for state in ("pending", "estimating", "provisioning", "downloading", "processing") for row in _reaped(state)),
    *_reaped("storing", only="mrt-zk"),
    *(row for state in ("recording", "notify") for row in _reaped(state)),
)  # fmt: skip

BATCH = Machine("batch", "new", spelt("design", _BATCH_ROWS))
INGEST_JOB = Machine("ingest job", "new", spelt("design", _INGEST_JOB_ROWS))
#: The same in the tree of Merritt's own library.
MERRITT_BATCH = Machine("batch", "new", spelt("mrt-zk", _BATCH_ROWS))
MERRITT_INGEST_JOB = Machine("ingest job", "new", spelt("mrt-zk", _INGEST_JOB_ROWS))

MACHINES = (LOCK, CHUNK, BATCH, INGEST_JOB)
