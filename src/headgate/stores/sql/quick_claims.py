"""Claims and reports in one trip. What the quick way does not do goes the careful way (claiming.py)."""

from __future__ import annotations

from contextlib import suppress

from headgate.core.errors import StoreUnavailable
from headgate.core.ledger import Claim
from headgate.core.ordering import Order, order_key
from headgate.stores.base import Asker
from headgate.stores.sql.engine import Database, Duplicate
from headgate.stores.sql.moments import to_micro
from headgate.stores.sql.shapes import Claimed, parse_shape

#: After so many claims find_next learns where to begin.
MARK_EVERY = 200


def claim_next(database: Database, job: str, asker: Asker) -> Claim | None:
    """The first chunk in order, if nothing about it needs a closer look."""
    params = {"job": job, "worker": asker.worker, "request_id": asker.request_id, "lease": to_micro(asker.lease)}
    try:
        rows = database.dialect.claim_next(database, params)
    except Duplicate:  # Somebody claimed it by its name meanwhile.
        return None
    if not rows:
        return None
    dataid, token, _ = rows[0]
    if int(token) % MARK_EVERY == 0:
        with suppress(StoreUnavailable):  # The claim is made, whatever becomes of this.
            database.dialect.raise_mark(database, job)
    shape = parse_shape(tuple(str(row[2]) for row in rows))
    return shape.claim(Claimed(str(dataid), 1, int(token), asker.worker, asker.lease, asker.lease))


def succeed(database: Database, job: str, dataid: str, token: int, who: str) -> bool:
    """Whether the claim ran, and is done now."""
    params = {
        "job": job, "dataid": dataid, "token": token, "who": who,
        "natural_key": order_key(dataid, Order.NATURAL), "text_key": order_key(dataid, Order.TEXT),
    }  # fmt: skip
    return database.dialect.succeed(database, params)
