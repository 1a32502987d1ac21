"""Items whose owner died: counted, and held when that happens too often."""

from __future__ import annotations

from headgate.calls.actor import acting
from headgate.core.owners import Actor
from headgate.core.queue import REAP_EVENT, Changes, Item, Taken, choose, reap_facts, reap_message
from headgate.stores.sql.engine import Transaction
from headgate.stores.sql.queue_moving import Held, hold_still, move
from headgate.stores.sql.queue_rows import Noun, noun_of, number_of


def reap(tx: Transaction, held: Held, max_crashes: int) -> Item:
    """An item whose owner died, held still: nobody's in the same state, or held.

    `max_crashes`: the limit of the store, for an item that has none of its own.
    """
    item = held.item
    row = choose(noun_of(item.id).machine, item.id, item.state, REAP_EVENT, reap_facts(item, max_crashes))
    worker = held.dead or "somebody"
    with acting(Actor()):  # Whoever notices it has not done it.
        return move(tx, held, row, reap_message(row, item, worker), worker, Changes())


def reap_dead(tx: Transaction, noun: Noun, number: int, max_crashes: int) -> Item | None:
    """Reap an item if its owner is dead; None when it is not (any more)."""
    held = hold_still(tx, noun.id_of(number))
    return None if held is None else reap_held(tx, held, max_crashes)


def reap_held(tx: Transaction, held: Held, max_crashes: int) -> Item | None:
    """The same for an item that is held still."""
    if held.dead is None:
        return None
    noun = noun_of(held.item.id)
    if not any(row.source == held.item.state and row.event == REAP_EVENT for row in noun.machine.rows):
        # Nobody can have taken it in this state: see the faults.
        tx.run(noun.sql.free_dead, id=number_of(held.item.id), grace=0)
        return held.item
    return reap(tx, held, max_crashes)


def report_late(tx: Transaction, taken: Taken) -> None:
    """An owner whose lease has run out reports that it lives: it did not die, if nobody has noticed meanwhile."""
    tx.run(noun_of(taken.id).sql.free_late, id=number_of(taken.id), state=taken.state, token=taken.token)
