"""Every error of kazoo is either handled by the store or translated to one of ours."""

import inspect
from typing import Any

import pytest
from kazoo import exceptions
from kazoo import retry as kazoo_retry
from kazoo.handlers.threading import KazooTimeoutError

from headgate import BadValue, HeadgateError, StoreUnavailable
from headgate.stores.zookeeper.ensemble.session import ANSWERS, FAILURES, FORBIDDEN, INTERRUPTIONS, translate

#: Used only as a base class.
BASES = {exceptions.KazooException, exceptions.ZookeeperError}
ALL: set[Any] = {
    each
    for module in (exceptions, kazoo_retry)
    for _, each in inspect.getmembers(module, inspect.isclass)
    if issubclass(each, exceptions.KazooException) and each not in BASES
} | {KazooTimeoutError}
KINDS = {"answers": ANSWERS, "interruptions": INTERRUPTIONS, "failures": FAILURES, "forbidden": FORBIDDEN}


def kinds_of(error: type[Exception]) -> list[str]:
    return [name for name, kind in KINDS.items() if issubclass(error, kind)]


@pytest.mark.parametrize("error", sorted(ALL, key=str))
def test_every_error_of_kazoo_is_of_exactly_one_kind(error: type[Exception]) -> None:
    assert len(kinds_of(error)) == 1


@pytest.mark.parametrize("error", sorted(ALL, key=str))
def test_every_error_of_kazoo_becomes_one_of_ours(error: type[Exception]) -> None:
    translated: HeadgateError = translate(error(), "zookeeper://one/a")
    expected = BadValue if kinds_of(error) == ["forbidden"] else StoreUnavailable
    assert type(translated) is expected
    assert "zookeeper://one/a" in str(translated)
