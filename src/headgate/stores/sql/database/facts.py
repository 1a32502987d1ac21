"""Facts: what is known about a store besides its rows. Each has a name and a text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.stores.sql.database.sql_text import Statement

if TYPE_CHECKING:
    from headgate.stores.sql.database.engine import Database
    from headgate.stores.sql.database.transaction import Transaction

#: While another store is being moved here: its identity. The start of new tokens.
ARRIVING, TOKEN_FLOOR = "arriving", "token_floor"
#: History entries from before this time (microseconds) may have been removed.
HISTORY_SINCE = "history_since"
#: The server's epoch, when its clock was last followed, and how tokens were last raised.
EPOCH, CLOCK_SET, RAISED = "epoch", "clock_set", "tokens_raised"

READ_FACTS = Statement("All facts.", "select name, value from hg_meta")
READ_FACT = Statement("One fact.", "select value from hg_meta where name = :name")
HOLD_FACT = Statement(
    "The same, locked until the end of the transaction.", "select value from hg_meta where name = :name {for_update}"
)
ADD_FACT = Statement("A new fact.", "insert into hg_meta (name, value) values (:name, :value)")
WRITE_FACT = Statement("Change a fact.", "update hg_meta set value = :value where name = :name")
DROP_FACT = Statement("Remove a fact.", "delete from hg_meta where name = :name")
READ_TAG = Statement("The store's tag.", "select value from hg_meta where name = 'tag'")
READ_VERSION = Statement("The version of the schema.", "select version_num from hg_schema")
READ_FLOOR = Statement("The floor of new tokens.", "select {token_floor}")


def read_facts(database: Database) -> dict[str, str]:
    """Return all facts by name."""
    return {str(name): str(value) for name, value in database.single(READ_FACTS)}


def read_floor(tx: Transaction) -> int:
    """Return the floor of new tokens."""
    return int(tx.one(READ_FLOOR)[0])


def write_fact(tx: Transaction, name: str, value: str) -> None:
    """Set a fact, whether or not it exists."""
    tx.run(DROP_FACT, name=name)
    tx.run(ADD_FACT, name=name, value=value)
