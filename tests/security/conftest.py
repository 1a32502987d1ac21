"""A small pipeline with secrets on each store that keeps them, and the keys that open them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate import Gate
from tests.cli.commands import Headgate
from tests.contract.conftest import _no_settings_of_this_machine, gates, prepared, spokesman, store_url
from tests.contract.over_http import LEDGER_STORES
from tests.contract.steps import Gates
from tests.security.site import Site

__all__ = ["_no_settings_of_this_machine", "gates", "prepared", "spokesman", "store_url"]

#: Text that must not be found anywhere; no part of any name.
CANARY = "c4n4ry-raw-Zq7"
OTHER = "c4n4ry-tidy-Zq8"
#: The jobs that hold secrets, each confirmed.
HOLDERS = ("raw/clean", "tidy/clean", "tidy/report")


@pytest.fixture(params=LEDGER_STORES)
def kind(request: pytest.FixtureRequest) -> str:
    """Which of the three stores with a ledger this is, or the service."""
    return str(request.param)


@pytest.fixture
def ring(tmp_path: Path) -> Path:
    """The path of the master keys; the file does not exist yet."""
    return tmp_path / "ring"


@pytest.fixture
def admin(gates: Gates, ring: Path) -> Gate:
    """A user with a ring of one master key."""
    gate = gates.open(master_key_file=str(ring))
    gate.secrets.rotate()
    return gate


@pytest.fixture
def worker(gates: Gates) -> Gate:
    """A user without any key."""
    return gates.open()


@pytest.fixture
def keys(admin: Gate) -> dict[str, str]:
    """raw is read by clean, which makes tidy, which is read by report; raw and tidy have a secret.

    Returns both keys.
    """
    ledger = admin.ledger
    ledger.define_dataset("raw", uri="db://raw", secrets={"password": CANARY})
    ledger.define_dataset("tidy", secrets={"password": OTHER})
    ledger.define_dataset("rep")
    ledger.define_job("clean", inputs=["raw"], outputs=["tidy"])
    ledger.define_job("report", inputs=["tidy"], outputs=["rep"])
    ledger.publish("raw", ["1", "2", "3"])
    return {job: admin.secrets.new_key(job, holders=HOLDERS).key for job in ("clean", "report")}


@pytest.fixture
def site(store_url: str, tmp_path: Path) -> Iterator[Site]:
    command = Headgate(store_url, tmp_path)
    yield Site(command)
    command.end_all()
