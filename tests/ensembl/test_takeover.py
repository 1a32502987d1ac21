"""The conversion of the original's rows, as a pure decision."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.ensembl import (
    UNKNOWN_CLIENT,
    OldLock,
    Original,
    client_name,
    lock_number,
    number,
    plan_takeover,
    request_id,
    resource_name,
)
from headgate.core.locks.model import COMPATIBLE, Mode
from headgate.core.values.names import check_name, check_resource

START = datetime(2020, 1, 1, tzinfo=UTC)


def row(
    lock_id: int, lock_type: str, *, client: str | None = "a", resource: str | None = "u", days: int = 0
) -> OldLock:
    return OldLock(lock_id, client, resource, lock_type, START + timedelta(days=days))


def taken(*rows: OldLock) -> list[int]:
    return [lock.row.id for lock in plan_takeover(Original((), (), rows), {}).locks]


@pytest.mark.parametrize(
    ("rows", "stay"),
    [
        ([row(1, "read"), row(2, "read"), row(3, "read")], [1, 2, 3]),
        ([row(1, "write", days=1), row(2, "write")], [2]),
        ([row(1, "write"), row(2, "read", days=1), row(3, "read", days=2)], [1]),
        ([row(1, "write", days=1), row(2, "read"), row(3, "read", days=2)], [2, 3]),
        ([row(1, "write"), row(2, "write", resource="v")], [1, 2]),
        ([row(2, "write"), row(1, "write")], [1]),
    ],
)
def test_the_oldest_lock_stays_with_all_compatible_ones(rows: list[OldLock], stay: list[int]) -> None:
    assert taken(*rows) == stay


def test_every_row_left_out_is_reported() -> None:
    rows = (row(1, "read"), row(2, "write", client="b", days=1), row(3, "append"), row(4, "read", resource=None))
    plan = plan_takeover(Original((), (), rows), {})
    begin = "skipped resource_lock"
    assert plan.lines == [
        f"{begin} 3 (append on u by a since 2020-01-01 00:00:00 UTC): its type is neither read nor write",
        f"{begin} 4 (read on no resource by a since 2020-01-01 00:00:00 UTC): its resource does not exist",
        f"{begin} 2 (write on u by b since 2020-01-02 00:00:00 UTC): a holds u shared, and that lock is kept",
    ]


def test_locks_that_are_held_here_already_are_kept() -> None:
    plan = plan_takeover(Original((), (), (row(1, "read"),)), {"u": [(Mode.EXCLUSIVE, "writer")]})
    assert plan.locks == []
    assert "writer holds u exclusive" in plan.lines[0]


def test_a_lock_whose_client_is_gone_still_keeps_others_out() -> None:
    plan = plan_takeover(Original(("b",), (), (row(1, "write", client=None), row(2, "read", client="b", days=1))), {})
    assert [(lock.row.id, lock.client) for lock in plan.locks] == [(1, UNKNOWN_CLIENT)]
    assert plan.clients == ["b", UNKNOWN_CLIENT]
    assert "it is held by 'unknown' here" in plan.lines[0]


def test_names_that_break_the_rules_are_changed_and_reported() -> None:
    plan = plan_takeover(Original(("a/b", "a_b"), ("u\n", "u"), (row(1, "read", client="a/b", resource="u\n"),)), {})
    assert (plan.clients, plan.resources) == (["a_b"], ["u_", "u"])
    assert [(lock.client, lock.resource) for lock in plan.locks] == [("a_b", "u_")]
    assert plan.lines == [
        "client 'a/b' is named 'a_b' here, because its name is not valid here",
        "clients 'a/b' and 'a_b' have the same name here",
        "resource 'u\\n' is named 'u_' here, because its name is not valid here",
    ]


@given(st.text())
def test_any_name_becomes_one_that_the_rules_allow(name: str) -> None:
    assert check_name("client", client_name(name)) == client_name(name)
    assert check_resource(resource_name(name)) == resource_name(name)


@given(
    st.lists(
        st.builds(
            row,
            st.integers(1, 10**6),
            st.sampled_from(["read", "write", "WRITE", "other"]),
            client=st.sampled_from(["a", "b/c", None]),
            resource=st.sampled_from(["u", "v", None]),
            days=st.integers(0, 3),
        ),
        unique_by=lambda each: each.id,
    )
)
def test_compatible_locks_are_taken_over_and_the_others_are_reported(rows: list[OldLock]) -> None:
    plan = plan_takeover(Original((), (), tuple(rows)), {})
    for lock in plan.locks:
        others = [other for other in plan.locks if other is not lock and other.resource == lock.resource]
        assert all(COMPATIBLE[lock.mode, other.mode] for other in others)
    left_out = {each.id for each in rows} - {lock.row.id for lock in plan.locks}
    assert left_out == {int(line.split()[2]) for line in plan.lines if line.startswith("skipped")}


def test_a_lock_taken_over_keeps_its_number() -> None:
    assert lock_number("any", request_id(row(17, "read"))) == 17


@given(st.text(), st.text())
def test_other_numbers_are_above_every_original_and_fit_into_json(lock_id: str, request: str) -> None:
    assert 2**31 <= number("lock", lock_id) < 2**53
    assert lock_number(lock_id, "r" + request) == number("lock", lock_id)
