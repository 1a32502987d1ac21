"""The expectations of a service: each operation as it is declared in `headgate.operations.expectations`."""

from __future__ import annotations

from typing import NoReturn

from headgate.calls.deadlines import EXPECTATION_CALLS, answered_in_time
from headgate.client.sending import ServicePart, remote
from headgate.core.errors import BadValue
from headgate.core.ledger.expectations.model import JUDGE_LEASE
from headgate.operations import expectations
from headgate.service.expectations import Expectations


@answered_in_time(EXPECTATION_CALLS)
@remote("expectations", expectations.declared)
class RemoteExpectations(ServicePart, Expectations):
    """Expectations behind a service, whose own daemons judge them."""

    def take_turn(self, worker: str, lease: float = JUDGE_LEASE) -> NoReturn:
        del worker, lease
        raise BadValue("url", self.connection.name, "is a service, whose own daemons judge what is late")
