"""A backup is one file for every kind of store; what is damaged is refused before anything is written."""

import gzip
import json
import re
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headgate
from headgate import BadPayload, BadValue
from headgate.moving import backing_up, not_backed_up, restoring
from headgate.settings import load
from tests.cli.test_quick_looks import in_shell
from tests.moving.furniture import SECRET, furnish, opened, seen

PAGE = Path(__file__).parents[2] / "docs/explanation/moving.md"


def backup(url: str, file: Path) -> None:
    with backing_up(load({"url": url}), file) as work:
        work.run(lambda _: None)


def restore(file: Path, url: str) -> None:
    with restoring(load({"url": url}), file) as work:
        work.run(lambda _: None)


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a lock, and its backup."""
    folder = tmp_path_factory.mktemp("small")
    url = f"sqlite:///{folder / 'small.db'}"
    with headgate.connect(url) as gate:
        gate.locks.acquire("ann", "x", "exclusive")
    backup(url, folder / "small.gz")
    return folder


@pytest.fixture
def small(made_once: Path, tmp_path: Path) -> Path:
    """A backup of a store with a lock, to be harmed."""
    shutil.copy(made_once / "small.db", tmp_path)
    return Path(shutil.copy(made_once / "small.gz", tmp_path))


def test_a_backup_of_any_store_is_restored_into_sqlite_with_all_that_it_had(sql_url: str, tmp_path: Path) -> None:
    with opened(sql_url, tmp_path) as gate:
        furnish(gate)
        backup(sql_url, tmp_path / "b.gz")
        before = seen(gate)
        later = gate.queue.submit("late", "bob", "https://example.org/late")
        grants = [gate.locks.acquire("ann", "after the backup", "shared").token for _ in range(3)]
        claimed = gate.ledger.find_next("clean")
    new = f"sqlite:///{tmp_path / 'new.db'}"
    restore(tmp_path / "b.gz", new)
    assert stat.S_IMODE((tmp_path / "b.gz").stat().st_mode) == 0o600
    assert SECRET not in gzip.decompress((tmp_path / "b.gz").read_bytes()).decode()
    with opened(new, tmp_path) as gate:
        assert seen(gate) == before
        assert gate.locks.acquire("ann", "after the backup", "shared").token > max(grants)
        again = gate.ledger.find_next("clean")
        assert claimed is not None
        assert again is not None
        assert again.token > claimed.token
        assert gate.queue.submit("late", "bob", "https://example.org/late").id > later.id


@pytest.mark.usefixtures("small")
def test_a_backup_is_its_owners_alone_whoever_prepared_its_place(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"")
    (tmp_path / "b.gz.unfinished").symlink_to(tmp_path / "elsewhere")
    backup(f"sqlite:///{tmp_path / 'small.db'}", tmp_path / "b.gz")
    found = (tmp_path / "b.gz").lstat()
    assert (stat.S_ISREG(found.st_mode), stat.S_IMODE(found.st_mode)) == (True, 0o600)
    assert (tmp_path / "elsewhere").read_bytes() == b""


def test_a_backup_is_not_written_over(small: Path, tmp_path: Path) -> None:
    content = small.read_bytes()
    with pytest.raises(BadValue, match="exists already"):
        backup(f"sqlite:///{tmp_path / 'small.db'}", small)
    assert small.read_bytes() == content
    with pytest.raises(BadValue, match="does not exist"):
        backup(f"sqlite:///{tmp_path / 'small.db'}", tmp_path / "no folder" / "b.gz")


def test_a_restored_store_is_not_restored_into_again(small: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'new.db'}"
    restore(small, url)
    with pytest.raises(BadValue, match="is not empty"):
        restore(small, url)


def changed(small: Path, change: Callable[[list[Any]], list[Any]]) -> None:
    lines = [json.loads(line) for line in gzip.decompress(small.read_bytes()).splitlines()]
    small.write_bytes(gzip.compress(b"".join(json.dumps(line).encode() + b"\n" for line in change(lines))))


def other_client(lines: list[Any]) -> list[Any]:
    return [[("eve" if value == "ann" else value) for value in line] if isinstance(line, list) else line
            for line in lines]  # fmt: skip


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "cut off": (lambda file: file.write_bytes(file.read_bytes()[:-200]), "no whole archive"),
    "a flipped byte": (
        lambda file: file.write_bytes(file.read_bytes()[:300] + b"x" + file.read_bytes()[301:]),
        "small.gz",
    ),
    "no end": (lambda file: changed(file, lambda lines: lines[:-1]), "has no end"),
    "another value": (lambda file: changed(file, other_client), "changed or damaged"),
    "a missing row": (lambda file: changed(file, lambda lines: [*lines[:-2], lines[-1]]), "changed or damaged"),
    "something else": (lambda file: file.write_bytes(gzip.compress(b'{"a": 1}\n')), "no archive of Headgate"),
    "not compressed": (lambda file: file.write_text("hello"), "no whole archive"),
    "a newer format": (lambda file: changed(file, lambda lines: [{**lines[0], "format": 2}, *lines[1:]]), "newer"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_changes_nothing(damage: str, small: Path, tmp_path: Path) -> None:
    harm, why = DAMAGE[damage]
    harm(small)
    with pytest.raises(BadPayload, match=why):
        restore(small, f"sqlite:///{tmp_path / 'new.db'}")
    assert not (tmp_path / "new.db").exists()


def test_a_backup_of_another_schema_is_refused(small: Path, tmp_path: Path) -> None:
    changed(small, lambda lines: [{**lines[0], "schema": "0001"}, *lines[1:]])
    with pytest.raises(BadValue, match="then: headgate migrate"):
        restore(small, f"sqlite:///{tmp_path / 'new.db'}")


def test_the_commands_on_the_page_run_as_they_stand(tmp_path: Path) -> None:
    (block,) = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    done = in_shell(tmp_path, block)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("and the same there") == 3


def test_what_is_kept_elsewhere_is_named() -> None:
    assert not_backed_up(load({"url": "sqlite:///a"})) == []
    (told,) = not_backed_up(load({"url": "sqlite:///a", "coordination_url": "zookeeper://zk1/x"}))
    assert "zookeeper://zk1/x" in told


def test_a_service_is_not_backed_up_through_itself(tmp_path: Path) -> None:
    settings = load({}, {"HEADGATE_SERVER": "http://127.0.0.1:8750"}, tmp_path)
    with pytest.raises(BadValue, match="is a service"), backing_up(settings, tmp_path / "b.gz"):
        pass
