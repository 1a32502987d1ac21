"""Whether a principal may act on another principal's locks, claims and items, and when that is an override."""

import pytest

from headgate.core.access.owners import LOCAL, Actor, Override
from headgate.core.access.principals import must_own
from headgate.core.errors import NotOwner


@pytest.mark.parametrize("owner", ["ann", ""])
def test_owners_and_direct_users_act_without_an_override(owner: str) -> None:
    assert must_own(Actor("ann"), "lock 1", owner) == ()
    assert must_own(Actor(LOCAL), "lock 1", owner) == ()
    assert must_own(Actor("ann", "the host burned down"), "lock 1", owner) == ()


def test_other_principals_need_a_reason_and_their_override_is_reported() -> None:
    with pytest.raises(NotOwner) as refused:
        must_own(Actor("ben"), "lock 1", "ann")
    assert (refused.value.what, refused.value.owner, refused.value.principal) == ("lock 1", "ann", "ben")
    assert must_own(Actor("ben", "the host burned down"), "lock 1", "ann") == (Override("lock 1", "ann"),)
