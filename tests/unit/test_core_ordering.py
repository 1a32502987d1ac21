"""Keys of data ids: their plain binary order is the order that people expect."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import BadValue
from headgate.core.ledger.ordering import Order, order_key
from headgate.core.ledger.parsing import parse_order

DATAIDS = st.text(st.sampled_from("0019a.b-é😀 "), min_size=1, max_size=12) | st.text(min_size=1, max_size=255)


def natural(dataid: str) -> bytes:
    return order_key(dataid, Order.NATURAL)


@pytest.mark.parametrize(
    "ids",
    [
        ["9", "10", "11", "100"],
        ["1.2", "1.10", "1.10.1", "2"],
        ["2024-01-09", "2024-01-10", "2024-02-01", "2025-01-01"],
        ["a", "a1", "a2", "a10", "a10b", "b"],
        ["part-1", "part-01", "part-001", "part-2"],
        ["0", "00", "1"],
        ["v1", "v1.0", "v1.1"],
        ["ark_13030_m5abc.v3", "ark_13030_m5abc.v12"],
    ],
)
def test_natural_order_compares_runs_of_digits_as_numbers(ids: list[str]) -> None:
    keys = [natural(each) for each in ids]
    assert keys == sorted(set(keys))


@given(DATAIDS, DATAIDS, st.sampled_from(Order))
def test_no_two_ids_share_a_key(one: str, other: str, order: Order) -> None:
    assert (order_key(one, order) == order_key(other, order)) == (one == other)


@given(DATAIDS, DATAIDS)
def test_natural_order_sorts_numbers_and_text(one: str, other: str) -> None:
    """Compared with the simplest implementation; ids that differ only in leading zeros are left out."""

    def plain(dataid: str) -> list[tuple[bytes, int]]:
        """Each character by its bytes, each number at the position of a digit."""
        runs = re.findall(r"[0-9]+|[^0-9]", dataid)
        return [(b"0", int(run)) if run[0] in "0123456789" else (run.encode(), -1) for run in runs]

    if plain(one) != plain(other):
        assert (natural(one) < natural(other)) == (plain(one) < plain(other))


@given(st.text(min_size=1, max_size=255))
def test_a_key_fits_into_its_column(dataid: str) -> None:
    assert len(natural(dataid)) <= 1300


def test_the_longest_key_fits_into_its_column() -> None:
    assert all(len(natural(text)) <= 1300 for text in ("😀" * 255, "1a" * 127 + "1", "0" * 255, "0é" * 127))


def test_text_order_sorts_by_characters() -> None:
    assert sorted(["9", "10", "a"], key=lambda each: order_key(each, Order.TEXT)) == ["10", "9", "a"]


def test_an_order_is_natural_or_text() -> None:
    assert parse_order("TEXT") is Order.TEXT
    with pytest.raises(BadValue, match="neither natural nor text"):
        parse_order("backwards")
