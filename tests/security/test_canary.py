"""A secret and a job's key leak nowhere: not into tables, logs, history, errors, process lists or files."""

import json
import os
import signal
import stat
from pathlib import Path

import pytest
from sqlalchemy import MetaData, NullPool, create_engine, select

from headgate.stores.sql.dialects import dialect_for
from tests.cli.commands import gone, read_number
from tests.conftest import SQL_STORES
from tests.security.site import Site
from tests.waiting import until

#: It reads the database itself; traffic on the wire is checked in test_service.
pytestmark = pytest.mark.parametrize("kind", SQL_STORES)

#: Records its claim file and its output, and reports that it runs.
SCRIPT = 'cp "$HEADGATE_CLAIM_FILE" seen; echo "$HEADGATE_CLAIM_FILE" >file; echo $$ >pid; '


def whole_store(url: str) -> bytes:
    """Every value of every table; of a file, every byte."""
    if url.startswith("sqlite"):
        return Path(url.removeprefix("sqlite:///")).read_bytes()
    dialect, tables = dialect_for(url), MetaData()
    engine = create_engine(f"{dialect.sqlalchemy_name}://", creator=dialect.connect, poolclass=NullPool)
    with engine.connect() as connection:
        tables.reflect(connection)
        rows = [row for table in tables.sorted_tables for row in connection.execute(select(table))]
    assert "hg_credential" in tables.tables
    return repr(rows).encode()


def process_list() -> bytes:
    """The command line and the environment of every process."""
    found = b""
    for process in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ"):
            try:
                found += (process / name).read_bytes() + b"\n"
            except OSError:  # It has ended, or is a kernel thread.
                continue
    return found


def test_no_secret_or_key_leaks(site: Site) -> None:
    site.use_key_file()
    process = site.command.start("job", "run", "clean", "-vv", "--lease", "2", "--", "sh", "-c", SCRIPT + "sleep 60")
    child = read_number(site.folder / "pid")
    assert json.loads((site.folder / "seen").read_text())["inputs"]["raw"]["secrets"] == {"pass-word": site.canary}
    assert site.found_in(process_list()) == []
    claim_file = Path((site.folder / "file").read_text().strip())
    assert stat.S_IMODE(claim_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(claim_file.parent.stat().st_mode) == 0o700
    os.kill(process.pid, signal.SIGKILL)
    site.said += [each.decode() for each in process.communicate()]
    until(lambda: gone(child) and not claim_file.parent.exists(), "the command and its claim file to be gone")
    tell_all(site)
    assert site.found_in("\n".join(site.said).encode()) == []
    assert site.found_in(whole_store(site.command.url)) == []
    assert site.found_in(process_list()) == []


def tell_all(site: Site) -> None:
    """Commands that print something about the job, as text or JSON, and ways to be refused."""
    (site.folder / "headgate.toml").unlink()
    site.run("job", "next", "clean", code=77, HEADGATE_JOB_KEY="hgk_" + "A" * 43)
    site.run("job", "next", "clean", "--json")
    site.run("job", "run", "clean", "--", "sh", "-c", "exit 7", code=7, HEADGATE_JOB_KEY=site.key)
    site.define()
    for words in (["settings"], ["history", "--job", "clean"], ["status", "--rich", "--json"]):
        site.run(*words, HEADGATE_JOB_KEY=site.key)
    site.run("job", "connections", "clean", HEADGATE_JOB_KEY=site.key)
    site.run("keys", "rotate", **site.ring)
    site.run("keys", "rewrap", **site.ring)
    site.run("keys", "new", "clean", code=75, **site.ring)
