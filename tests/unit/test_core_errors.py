"""Errors carry their data, and their text says what to do next."""

import inspect
from datetime import UTC, datetime

import pytest

import headgate
from headgate.core import errors
from headgate.core.errors import (
    BadManifest,
    BadPayload,
    BadProfiles,
    BadValue,
    ForeignStore,
    HeadgateError,
    Invalid,
    LockLost,
    LockRefused,
    Lost,
    MissingExtra,
    Refused,
    SchemaMismatch,
    ServiceRefused,
    ServiceUnavailable,
    StorageGuardFailed,
    StoreUnavailable,
    TransitionRefused,
    Unavailable,
    UnknownName,
    VersionLost,
    WorkStopped,
)
from headgate.core.locks.model import Blocker, Mode, Request, Want

KINDS = (Refused, Lost, Unavailable, Invalid)
EVERY = [value for _, value in inspect.getmembers(errors, inspect.isclass) if issubclass(value, HeadgateError)]
REQUEST = Request("id", "ann", (Want("r1", Mode.SHARED), Want("r2", Mode.EXCLUSIVE)))


@pytest.mark.parametrize("error", EVERY)
def test_each_error_is_of_exactly_one_kind_and_exported(error: type[HeadgateError]) -> None:
    assert error is HeadgateError or sum(issubclass(error, kind) for kind in KINDS) == 1
    assert getattr(headgate, error.__name__) is error
    assert error.__name__ in headgate.__all__


def test_the_tree_at_the_top_of_the_file_is_complete() -> None:
    assert errors.__doc__
    drawn = [line.split("─ ")[-1].split()[0] for line in errors.__doc__.splitlines() if "─ " in line]
    assert set(drawn) == {error.__name__ for error in EVERY} - {"HeadgateError"}


def test_a_refusal_names_the_wanted_resource_and_all_blockers() -> None:
    since = datetime(2026, 11, 15, tzinfo=UTC)
    blockers = [
        Blocker("holder", "r1", "ben", Mode.EXCLUSIVE, since, "ab12-x"),
        Blocker("waiter", "r2", "cam", Mode.SHARED, since),
    ]
    refusal = LockRefused(REQUEST, blockers, ["ann", "ben", "ann"])
    assert (refusal.request, refusal.blockers, refusal.cycle) == (REQUEST, tuple(blockers), ("ann", "ben", "ann"))
    assert str(refusal) == "\n".join(
        [
            "ann cannot acquire shared on r1, exclusive on r2 now:",
            f"  {blockers[0].sentence()}",
            f"  {blockers[1].sentence()}",
            "  these clients wait for each other (a deadlock): ann → ben → ann",
        ]
    )


def test_a_lost_lock_says_why() -> None:
    assert str(LockLost("ab12-x", 7, "it was broken")) == "lock ab12-x (token 7) is not yours: it was broken"
    assert str(LockLost("ab12-x", None, "it was broken")) == "lock ab12-x is not yours: it was broken"


def test_an_unavailable_store_is_named_with_what_to_do() -> None:
    error = StoreUnavailable("postgresql://db", "connection refused", "my request")
    assert str(error) == "postgresql://db does not answer: connection refused. Retry when it is available again"
    assert (error.store, error.why, error.request_id) == ("postgresql://db", "connection refused", "my request")


def test_the_other_texts_name_their_data() -> None:
    assert str(UnknownName("lock", "x")) == "there is no lock 'x'"
    assert str(UnknownName("lock", "x", "See the list")) == "there is no lock 'x'. See the list"
    assert str(BadValue("mode", 7, "is no mode")) == "mode 7 is no mode"
    assert str(StorageGuardFailed("file:///x", "disk")) == "the storage guard of file:///x failed: disk"
    assert str(ServiceRefused("EZID", "forbidden")) == "EZID refused the request: forbidden"
    unavailable = ServiceUnavailable("EZID", "timeout")
    assert str(unavailable) == "EZID: timeout. Retry later"
    assert (unavailable.service, unavailable.why, unavailable.retry_after) == ("EZID", "timeout", None)
    assert str(BadPayload("a.zip", "it is cut off")) == "a.zip: it is cut off"
    assert str(VersionLost("ark:/1/x", 2)).startswith("ark:/1/x: another process has already stored version 2")
    assert str(WorkStopped("the download")) == "the download was stopped before it finished"
    assert str(MissingExtra("mysql", "It needs PyMySQL")).endswith('pip install "headgate[mysql]"')
    assert str(TransitionRefused("lock", "shared", "fly", ["walk"])).endswith("Possible from here: walk")
    for kind in (ForeignStore, SchemaMismatch):
        assert str(kind("what to do")) == "what to do"


def test_a_long_value_is_shown_short() -> None:
    text = str(BadValue("resource", "x" * 3000, "is too long"))
    assert len(text) < 120
    assert "…" in text


def test_a_list_of_mistakes_is_kept_whole_and_shown_short() -> None:
    error = BadManifest([(0, "there is no end marker"), (3, "size 'x' is not a number")])
    assert error.problems == ((0, "there is no end marker"), (3, "size 'x' is not a number"))
    assert str(error) == "the manifest has errors:\n  there is no end marker\n  line 3: size 'x' is not a number"
    many = BadManifest([(line, "is wrong") for line in range(1, 31)])
    assert len(many.problems) == 30
    assert str(many).endswith("  line 20: is wrong\n  and 10 more")
    assert str(BadProfiles([("a.toml", "owner is missing")])).endswith(":\n  a.toml: owner is missing")
