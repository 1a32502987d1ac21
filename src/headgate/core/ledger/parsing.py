"""Parsing of kinds, statuses and orders."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.core.errors import BadValue
from headgate.core.ledger.model import DONE, ERROR, HOLD, PENDING, READY, RESUBMIT, RUNNING, Kind
from headgate.core.ledger.ordering import Order
from headgate.core.values.names import check_name
from headgate.core.values.words import unknown_word

#: Words for statuses, in any case. Any other word is kept, and blocks like HOLD.
STATUS_WORDS: Mapping[str, str] = {
    **{word: word for word in (RUNNING, READY, ERROR, RESUBMIT, HOLD, PENDING, DONE)},
    "FAILED": ERROR,
    "RERUN": RESUBMIT,
}
STATUS_LENGTH = 40
#: The words for the two kinds, in any case.
KIND_WORDS: Mapping[str, Kind] = {"INPUT": Kind.INPUT, "IN": Kind.INPUT, "OUTPUT": Kind.OUTPUT, "OUT": Kind.OUTPUT}


def parse_kind(value: object) -> Kind:
    """INPUT, OUTPUT, IN or OUT, in any case."""
    if isinstance(value, str) and value.upper() in KIND_WORDS:
        return KIND_WORDS[value.upper()]
    raise unknown_word("kind", value, KIND_WORDS)


def parse_status(value: object) -> str:
    """A status: a known word in any case, or any other name, unchanged."""
    text = check_name("status", value)
    if len(text) > STATUS_LENGTH:
        raise BadValue("status", value, f"has {len(text)} characters; at most {STATUS_LENGTH} are allowed")
    return STATUS_WORDS.get(text.upper(), text)


def parse_order(value: object) -> Order:
    """natural or text."""
    if isinstance(value, str) and value.lower() in tuple(Order):
        return Order(value.lower())
    raise BadValue("order", value, "is neither natural nor text")
