"""Sort keys for data ids: their plain binary order is the order of the ids, so that an index yields the next one."""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache

_RUNS = re.compile(r"[0-9]+|[^0-9]+")


class Order(StrEnum):
    """How the data ids of a dataset are ordered."""

    NATURAL = "natural"
    TEXT = "text"


@lru_cache(maxsize=10_000)
def order_key(dataid: str, order: Order) -> bytes:
    """A key for one data id. Two ids never share a key, and keys compare as the ids should.

    In natural order a run of digits compares as a number: 9 before 10, 1.2 before 1.10. Ids that differ only in
    leading zeros follow each other, fewer zeros first.
    """
    if order is Order.TEXT:
        return dataid.encode()
    body, zeros = bytearray(), bytearray()
    for run in _RUNS.findall(dataid):
        if run[0] in "0123456789":
            digits = run.lstrip("0")
            # The number of digits is compared before the digits; names have at most 255 characters.
            body += b"0" + bytes([len(digits)]) + digits.encode()
            zeros.append(len(run) - len(digits) - (not digits))
        else:
            body += run.encode()
    return bytes(body + b"\0" + zeros) if any(zeros) else bytes(body)
