"""Facts about a store besides its rows: which of them move with it, and the valid form of each in a backup."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import Boolean, Integer, LargeBinary, Table

from headgate.core.errors import BadPayload, BadValue
from headgate.core.jumps import LAST_NUMBER, LAST_TOKEN, Jump
from headgate.stores.archive.header import is_text
from headgate.stores.ports.moving import Contents, Row
from headgate.stores.sql.database import facts
from headgate.stores.sql.schema_versions import versions

#: How far earlier copies of this store jumped beyond its tokens and ids.
JUMPED = "jumped"
#: Facts that move with a store, each with its form.
OF_THE_STORE: Mapping[str, str] = {
    "definitions": "[0-9a-z]{1,64}",
    "ensembl": ".{0,255}",
    facts.HISTORY_SINCE: "[0-9]{1,18}",
    r"master_check\.[0-9]{1,9}": "[A-Za-z0-9_-]{43}",
    "min_decrypt_version": "[0-9]{1,9}",
}
#: Facts about a location rather than its content.
OF_THE_PLACE = (
    "tag", "clock", "service_alive", JUMPED, facts.ARRIVING, facts.TOKEN_FLOOR, facts.EPOCH, facts.CLOCK_SET,
    facts.RAISED,
)  # fmt: skip


def moves(name: str) -> bool:
    """Whether a fact moves with the store."""
    return any(re.fullmatch(known, name) for known in OF_THE_STORE)


def read_jump(text: str | None) -> Jump:
    """A jump as the store records it."""
    tokens, ids = (text or "0 0").split()
    return Jump(int(tokens), int(ids))


def write_jump(jump: Jump) -> str:
    """The same as text."""
    return f"{min(jump.tokens, LAST_TOKEN)} {min(jump.ids, LAST_NUMBER)}"


def accept(contents: Contents, tables: Sequence[Table]) -> Mapping[str, Callable[[Row], str]]:
    """Raise BadValue or BadPayload for an unsuitable backup; return for each table a check of its rows."""
    newest = versions()[-1]
    if contents.schema != newest:
        raise BadValue(
            "schema", contents.schema,
            (f"is not the schema of this Headgate ({newest}). Use the version that wrote it, then run: headgate "
"migrate"),
        )  # fmt: skip
    columns = {table.name: [column.name for column in table.columns] for table in tables}
    if {name: list(found) for name, found in contents.tables.items()} != columns:
        raise BadValue("source", contents.tag, "has other tables than this Headgate")
    for name, value in contents.facts.items():
        if not any(re.fullmatch(known, name) and re.fullmatch(form, value) for known, form in OF_THE_STORE.items()):
            raise BadPayload(name, "it is not a valid fact about a store")
    return {table.name: _row_check(table) for table in tables}


def _row_check(table: Table) -> Callable[[Row], str]:
    checks = [(column.name, bool(column.nullable), _value_check(column)) for column in table.columns]

    def check(row: Row) -> str:
        if len(row) != len(checks):
            return f"it has {len(row)} values, not {len(checks)}"
        for value, (name, nullable, fits) in zip(row, checks, strict=True):
            if not (nullable if value is None else fits(value)):
                return f"the value of {name} does not fit its column"
        return ""

    return check


def _value_check(column: Any) -> Callable[[Any], bool]:
    """For a column: whether it can store a JSON value."""
    kind = column.type
    if isinstance(kind, LargeBinary):
        most = 2 * (kind.length or 2**31)
        return lambda value: isinstance(value, str) and len(value) <= most and bool(_HEX.fullmatch(value))
    if isinstance(kind, Boolean):
        return lambda value: type(value) is bool
    if isinstance(kind, Integer):
        bits = 63 if kind.__class__.__name__ == "BigInteger" else 31
        return lambda value: type(value) is int and -(2**bits) <= value < 2**bits
    longest = getattr(kind, "length", None) or 2**31
    return lambda value: is_text(value, longest)


_HEX = re.compile("(?:[0-9a-f]{2})*")
