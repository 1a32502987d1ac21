"""The tables, and nothing else. Everything about states is derived from these rows."""

from __future__ import annotations

from headgate.core.machine import Also as A
from headgate.core.machine import By, Machine
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

MACHINES = (LOCK, CHUNK)
