"""The names of daemons. Consumers are named after the states that they process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headgate.core.daemons import step_of
from headgate.core.errors import UnknownName
from headgate.core.queue.model import work_states
from headgate.core.tables.states import BATCH, INGEST_JOB, MERRITT_INGEST_JOB
from headgate.core.values.words import as_sentence, suggestion

#: Name to noun and state. `job-storing` only has work in the spelling mrt-zk.
CONSUMERS: Mapping[str, tuple[str, str]] = {
    **{step_of(BATCH.name, state): (BATCH.name, state) for state in work_states(BATCH)},
    **{step_of(INGEST_JOB.name, state): (INGEST_JOB.name, state) for state in work_states(MERRITT_INGEST_JOB)},
}
#: Daemons that work in rounds and need no handler.
ROUNDS = ("batch-watcher", "reaper", "cleaner", "history", "messenger", "timekeeper")
DAEMONS = (*CONSUMERS, *ROUNDS)


def check_daemons(names: Sequence[str]) -> None:
    """UnknownName, with the nearest known name, if one of them is not a daemon."""
    for name in names:
        if name not in DAEMONS:
            raise UnknownName("daemon", name, as_sentence(suggestion(name, DAEMONS)))
