"""What the routines of the one-trip claims and reports answer."""

from __future__ import annotations

from headgate.stores.sql.database.dialect import OUTDATED, Outdated
from headgate.stores.sql.database.sql_text import Row

#: A report was taken, and somebody listens to the news of it.
HEARD = "heard"


def read_answer(rows: list[Row]) -> str | None:
    """What a routine of the one-trip claims and reports answered."""
    answer: str | None = rows[0][0]
    if answer == OUTDATED:
        raise Outdated
    return answer


def read_claimed(rows: list[Row]) -> tuple[str, int] | None:
    """The same for a claim, which answers with the token and the data id."""
    answer = read_answer(rows)
    if answer is None:
        return None
    token, _, dataid = answer.partition(" ")
    return dataid, int(token)


def read_ended(rows: list[Row]) -> bool | None:
    """The same for a report: whether anybody listens to its news; None: the report was not accepted."""
    answer = read_answer(rows)
    return None if answer is None else answer == HEARD
