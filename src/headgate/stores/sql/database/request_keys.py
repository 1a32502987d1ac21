"""The record of a request with an idempotency key, written by the transaction of its effect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from headgate.calls.idempotency import Keyed, Repeated, effect, pending
from headgate.core.locks.model import Lock
from headgate.stores.sql.database.sql_text import Statement

if TYPE_CHECKING:
    from headgate.stores.sql.database.transaction import Transaction

ADD_REPEAT = Statement(
    "Record that a request took effect.",
    """{insert_once} hg_repeat (id, principal, digest, nonce, result, at)
       values (:id, :principal, :digest, :nonce, :result, {wall}) {or_leave}""",
)


def keep_key(tx: Transaction, result: Any) -> Keyed | None:
    """Write the record of the request whose effect this transaction is, if there is one, and return the request.

    Raises Repeated when another attempt at the request was first: the transaction must not be committed.
    """
    keyed = pending()
    if keyed is None:
        return None
    kept = effect(keyed, _without_wakes(result))
    if kept is None:
        return None
    if tx.count(ADD_REPEAT, **columns_of(keyed), result=kept) < 1:
        raise Repeated("another attempt of this request was first")
    return keyed


def columns_of(keyed: Keyed) -> dict[str, object]:
    """The columns of its record."""
    return {"id": keyed.id, "principal": keyed.principal, "digest": keyed.digest, "nonce": keyed.nonce}


@runtime_checkable
class WithWakes(Protocol):
    """The result of a command on locks, and the waiters to wake after the commit."""

    result: Any
    wakes: Any


def _without_wakes(result: Any) -> Any:
    """The result alone, for transactions that also return waiters to wake."""
    if isinstance(result, WithWakes):
        return result.result
    is_pair = type(result) is tuple and len(result) == 2 and not isinstance(result[1], Lock)
    return result[0] if is_pair else result
