"""Renewing and changing a lock at the same moment: the holder is not notified of a loss while it holds the lock."""

import threading
from pathlib import Path

import pytest

import headgate
from headgate import Lock

LEASE = 1.0


def test_an_upgrade_while_the_lease_is_renewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The upgrade has happened, and its answer has not arrived yet, when it is time to renew."""
    with headgate.connect(f"sqlite:///{tmp_path / 'headgate.sqlite'}") as gate:
        store = gate.locks._store
        upgrade, renew = store.upgrade, store.renew
        renewing = threading.Event()

        def slow_upgrade(lock_id: str, token: int) -> Lock:
            changed = upgrade(lock_id, token)
            renewing.clear()
            renewing.wait(LEASE / 2)  # Twice the pause between two renewals.
            return changed

        def seen_renew(lock_id: str, token: int, lease: float | None = None) -> Lock:
            try:
                return renew(lock_id, token, lease)
            finally:
                renewing.set()

        monkeypatch.setattr(store, "upgrade", slow_upgrade)
        monkeypatch.setattr(store, "renew", seen_renew)
        with gate.locks.held("a", "race:1", "shared", lease=LEASE) as hold:
            gate.locks.upgrade(hold)
            renewing.clear()
            assert renewing.wait(30)
            hold.check()
            assert gate.locks.check(hold).alive
