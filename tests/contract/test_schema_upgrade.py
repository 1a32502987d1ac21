"""A store of the previous version: refused with advice, upgraded by `migrate`, completed after an interruption.

There is only one version until the first release, so the next one is created here.
"""

import shutil
from pathlib import Path

import pytest

import headgate
from headgate.migrating import migrate
from headgate.stores.sql import schema_versions
from headgate.stores.sql.database.engine import Database
from headgate.stores.sql.database.sql_text import Statement
from headgate.stores.sql.dialects import dialect_for
from headgate.stores.sql.migrations import upgrade as runner

NEXT = """
import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "0002", "0001", None, None


def upgrade() -> None:
    # Where a change of the schema ends the transaction, an interrupted run may have added it.
    if "colour" not in {column["name"] for column in sa.inspect(op.get_bind()).get_columns("hg_client")}:
        op.add_column("hg_client", sa.Column("colour", sa.String(10), nullable=False, server_default="green"))
"""
READ = Statement("What the new version added.", "select name, colour from hg_client")


@pytest.fixture
def older(sql_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store of this version, seen by a Headgate of the next one."""
    with headgate.connect(sql_url) as gate:
        gate.locks.acquire("ann", "file:/x", "write")
        gate.locks.register_client("ann")
    migrations = tmp_path / "migrations"
    shutil.copytree(schema_versions.MIGRATIONS, migrations)
    (migrations / "versions" / "2027_01_01_0002_next.py").write_text(NEXT, encoding="utf-8")
    monkeypatch.setattr(schema_versions, "MIGRATIONS", migrations)
    return sql_url


def test_an_older_store_is_refused_and_brought_up(older: str) -> None:
    with pytest.raises(headgate.SchemaMismatch, match=r"has schema 0001; .* needs 0002\. .*headgate migrate"):
        headgate.connect(older)
    assert migrate(older, dry_run=True).lines[1:] == ["would bring the schema from 0001 to 0002"]
    assert migrate(older).lines[1:] == ["brought the schema from 0001 to 0002"]
    assert not migrate(older).changed
    with headgate.connect(older) as gate:
        (held,) = gate.locks.list()
        assert (held.client, gate.locks.check(held).token) == ("ann", held.token)
    assert added(older) == [("ann", "green")]


def test_an_interrupted_upgrade_is_completed_by_the_next(older: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed(BaseException):
        """Represents the end of the process."""

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(runner, "_name_store", killed)
        with pytest.raises(Killed):
            migrate(older)
    migrate(older)
    with headgate.connect(older) as gate:
        assert [held.client for held in gate.locks.list()] == ["ann"]
    assert added(older) == [("ann", "green")]


def added(url: str) -> list[tuple[object, ...]]:
    database = Database(dialect_for(url))
    try:
        return [tuple(row) for row in database.single(READ)]
    finally:
        database.close()
