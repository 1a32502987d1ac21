"""The server of a store, and the reaction to a different one.

A server that takes over may lack the last commits of the one before: issued tokens, granted or released locks, reported
claims. So nothing that depends on them is kept: tokens continue far beyond those that may have been issued, leased
holds end, and persistent locks get a new token. This is one transaction, run by the first process that finds that the
store's epoch differs from the server's.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from headgate.stores.options import SYNCHRONOUS
from headgate.stores.ports.epochs import Raised, StoreState
from headgate.stores.sql.database import facts
from headgate.stores.sql.database.clock import TOLERANCE
from headgate.stores.sql.database.moments import moment
from headgate.stores.sql.server import epoch_statements as sql
from headgate.stores.sql.server.outages import move_leases
from headgate.telemetry import event

if TYPE_CHECKING:
    from headgate.stores.sql.database.clock import ClockJump
    from headgate.stores.sql.database.engine import Database, ServerChanged
    from headgate.stores.sql.database.transaction import Transaction

#: Far more tokens than can have been issued. JavaScript reads whole numbers exactly up to SAFE: there is room for 8,190
#: failovers, and then for a million with a smaller step.
STEP, SMALL_STEP, SAFE = 2**40, 2**20, 2**53
#: Ids of batches and ingest jobs that are skipped: ARKs are derived from them.
IDS_SKIPPED = 1_000_000
#: Maximum length of a fact.
FACT_LENGTH = 255
FAILOVER = "failover"


def follow(database: Database, change: ServerChanged) -> None:
    """Adjust the store to its server, unless another process has done so meanwhile."""
    if change.epoch:
        raised, wakes = database.write(lambda tx: _follow_epoch(tx, database), look=False)
        if raised is not None:
            _announce(database, raised, wakes)
    if change.jump is not None:
        jump = change.jump
        if database.write(lambda tx: _follow_clock(tx, jump), look=False):
            event("store.clock_was_set", logging.WARNING, store=database.name, seconds=jump.ahead / 1e6)


class SqlEpochs:
    """The epoch and the tokens of one SQL database."""

    def __init__(self, database: Database) -> None:
        self.name = database.name
        self._database = database

    def state(self) -> StoreState:
        """Which server the store follows, the state of its tokens, and what raising them would end."""
        return self._database.read(_state)

    def raise_tokens(self, reason: str, by: str) -> Raised:
        """Raise all tokens on an operator's request, as a failover does."""

        def work(tx: Transaction) -> tuple[Raised, list[tuple[str, int]]]:
            _hold_epoch(tx)
            return raise_tokens(tx, self._database, f"tokens raised by {by}: {reason}")

        raised, wakes = self._database.write(work)
        _announce(self._database, raised, wakes)
        return raised


def raise_tokens(tx: Transaction, database: Database, reason: str) -> tuple[Raised, list[tuple[str, int]]]:
    """End all leases, and raise all tokens. Returns the effects, and the waiters to wake."""
    if database.dialect.stop_grants is not None:
        tx.run(database.dialect.stop_grants)
    leased, persistent, claims, items = (int(count) for count in tx.one(sql.COUNT))
    step, floor = _raise_floor(tx, database)
    for statement in sql.END_ALL:
        tx.run(statement, step=step, reason=reason)
    raised = Raised(database.name, floor, leased, persistent, claims, items, reason)
    facts.write_fact(tx, facts.RAISED, f"{int(tx.one(sql.READ_NOW)[1])} {reason}"[:FACT_LENGTH])
    return raised, [(str(channel), int(number)) for channel, number in tx.all(sql.READ_WAITING)]


def _follow_epoch(tx: Transaction, database: Database) -> tuple[Raised | None, list[tuple[str, int]]]:
    stored, server = _hold_epoch(tx)
    if stored == server:
        return None, []
    tx.run(sql.SET_EPOCH)
    if not stored or database.options.replication == SYNCHRONOUS:
        return None, []
    return raise_tokens(tx, database, f"{FAILOVER}: another server took over (epoch {stored}, now {server})")


def _hold_epoch(tx: Transaction) -> tuple[str, str]:
    """The store's epoch and the server's; nobody else can change it meanwhile."""
    found = tx.one(sql.HOLD_EPOCHS)
    if found is None:
        tx.run(sql.ADD_EPOCH)
        found = tx.one(sql.HOLD_EPOCHS)
    return str(found[0]), str(found[1])


def step_beyond(given: int) -> int:
    """How much tokens are raised, given the greatest one that was certainly issued."""
    return STEP if given + 2 * STEP < SAFE else SMALL_STEP


def _raise_floor(tx: Transaction, database: Database) -> tuple[int, int]:
    """Returns how much tokens were raised, and the new floor."""
    given = max(int(tx.one(sql.READ_HIGHEST)[0] or 0), facts.read_floor(tx), tx.next_token())
    step = step_beyond(given)
    floor = given + step
    facts.write_fact(tx, facts.TOKEN_FLOOR, str(floor))
    database.dialect.raise_token(tx, floor)
    for name in ("bid", "jid"):
        if not tx.count(sql.SKIP_NUMBERS, name=name, count=IDS_SKIPPED):
            tx.run(sql.FIRST_NUMBERS, name=name, count=IDS_SKIPPED)
    return step, floor


def _follow_clock(tx: Transaction, jump: ClockJump) -> bool:
    """Leases count elapsed time, not the jump of the clock. False: another process did it."""
    now = int(tx.one(sql.READ_NOW)[0])
    row = tx.one(facts.HOLD_FACT, name=facts.CLOCK_SET)
    at, ahead = (0, 0) if row is None else (int(part) for part in str(row[0]).split())
    if jump.ahead < 0:
        for statement in sql.SHORTEN_LEASES:
            tx.run(statement, now=now)
        if at > now:  # That moment will occur again.
            tx.run(facts.DROP_FACT, name=facts.CLOCK_SET)
        return True
    # Another process has followed the clock since this process last read it.
    rest = jump.ahead - (ahead if at > jump.heard else 0)
    if rest <= TOLERANCE:
        return False
    facts.write_fact(tx, facts.CLOCK_SET, f"{now} {rest}")
    move_leases(tx, rest, now=now, heard=jump.heard)
    return True


def _state(tx: Transaction) -> StoreState:
    found = tx.one(sql.READ_EPOCHS)
    highest = max(int(tx.one(sql.READ_HIGHEST)[0] or 0), facts.read_floor(tx))
    leased, persistent, claims, items = (int(count) for count in tx.one(sql.COUNT))
    raised = tx.one(facts.READ_FACT, name=facts.RAISED)
    at, _, reason = ("", "", "") if raised is None else str(raised[0]).partition(" ")
    return StoreState(
        epoch="" if found is None else str(found[0]), server="" if found is None else str(found[1]),
        token_floor=facts.read_floor(tx), highest_token=highest, leased_locks=leased, persistent_locks=persistent,
        claims=claims, items=items, raised_at=moment(int(at)) if at else None, raised_because=reason,
    )  # fmt: skip


def _announce(database: Database, raised: Raised, wakes: list[tuple[str, int]]) -> None:
    event("store.tokens_raised", logging.WARNING, store=database.name, floor=raised.floor, reason=raised.reason)
    database.dialect.notify(database, wakes)
