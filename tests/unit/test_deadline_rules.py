"""The rules for the deadlines of calls that may take long."""

from collections.abc import Mapping

import pytest

from headgate.calls import deadlines
from headgate.calls.deadlines import Rule
from headgate.stores.sql.history import SqlHistory
from headgate.stores.sql.inventory.store import SqlInventory
from headgate.stores.sql.ledger.expectations import SqlExpectations
from headgate.stores.sql.ledger.incidents import SqlIncidents
from headgate.stores.sql.ledger.store import SqlLedger
from headgate.stores.sql.ledger.watches import SqlWatches
from headgate.stores.sql.locks.store import SqlLocks
from headgate.stores.sql.logs import SqlLogs
from headgate.stores.sql.queue.store import SqlQueue


@pytest.mark.parametrize(
    ("kind", "rules"),
    [
        (SqlHistory, deadlines.HISTORY_CALLS), (SqlLogs, deadlines.LOG_CALLS), (SqlLocks, deadlines.LOCK_CALLS),
        (SqlLedger, deadlines.LEDGER_CALLS), (SqlWatches, deadlines.WATCH_CALLS), (SqlQueue, deadlines.QUEUE_CALLS),
        (SqlInventory, deadlines.INVENTORY_CALLS), (SqlExpectations, deadlines.EXPECTATION_CALLS),
        (SqlIncidents, deadlines.INCIDENT_CALLS),
    ],
)  # fmt: skip
def test_every_rule_names_a_call_of_its_store(kind: type, rules: Mapping[str, Rule]) -> None:
    assert [name for name in rules if not hasattr(kind, name)] == []
