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

MACHINES = (LOCK,)
