"""Answers of the routines for one-trip claims and reports."""

from __future__ import annotations

from headgate.stores.sql.database.dialect import OUTDATED, Outdated
from headgate.stores.sql.database.sql_text import Row

#: A report was accepted, and another process listens to its news.
HEARD = "heard"


def read_answer(rows: list[Row]) -> str | None:
    """The answer of a routine for one-trip claims and reports."""
    answer: str | None = rows[0][0]
    if answer == OUTDATED:
        raise Outdated
    return answer


def read_claimed(rows: list[Row]) -> tuple[str, int] | None:
    """The same for a claim, whose answer contains the token and the data id."""
    answer = read_answer(rows)
    if answer is None:
        return None
    token, _, dataid = answer.partition(" ")
    return dataid, int(token)


def read_ended(rows: list[Row]) -> bool | None:
    """The same for a report: whether another process listens to its news; None: the report was not accepted."""
    answer = read_answer(rows)
    return None if answer is None else answer == HEARD
