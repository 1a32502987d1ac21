"""Watchers, as a service shows them."""

import pytest

from headgate import BadValue, Gate
from headgate.core.ledger.watches.model import Sighting
from tests.contract.ledger_steps import WHY, one_job
from tests.contract.over_http import HTTP, behind

SEEN = Sighting("raw", "/data/in", "{x}.csv", "one", 600.0, 2.0, None)


@pytest.mark.parametrize("kind", [HTTP])
def test_a_service_lists_watchers_and_reads_no_folders(gate: Gate) -> None:
    one_job(gate)
    behind(gate).watches.take_turn(SEEN)
    assert gate.watches.list() == behind(gate).watches.list()
    with pytest.raises(BadValue, match="is a service"):
        gate.watches.take_turn(SEEN)
    gate.watches.forget("raw", reason=WHY)
    assert gate.watches.list() == []
