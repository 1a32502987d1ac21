"""A backup is one file for every kind of store; a damaged one is refused before anything is written."""

import gzip
import json
import re
import shutil
import stat
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headgate
from headgate import BadPayload, BadValue, HalfMoved
from headgate.core.errors import Invalid
from headgate.moving import backing_up, not_backed_up, restoring
from headgate.settings import load
from headgate.stores.archive.file import ArchiveSource, Checksum
from headgate.stores.sql import opening
from headgate.stores.sql.database.engine import Database
from headgate.stores.sql.dialects import dialect_for
from headgate.stores.sql.moving.whole import accept_backup
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
        for resource in ("x", "y"):
            gate.locks.acquire("ann", resource, "exclusive")
    backup(url, folder / "small.gz")
    return folder


@pytest.fixture
def small(made_once: Path, tmp_path: Path) -> Path:
    """A backup of a store with a lock, to be damaged."""
    shutil.copy(made_once / "small.db", tmp_path)
    return Path(shutil.copy(made_once / "small.gz", tmp_path))


def test_a_backup_of_any_store_is_restored_into_sqlite_completely(sql_url: str, tmp_path: Path) -> None:
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
def test_a_backup_is_private_to_its_owner_no_matter_who_created_the_file(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"")
    (tmp_path / "b.gz.unfinished").symlink_to(tmp_path / "elsewhere")
    backup(f"sqlite:///{tmp_path / 'small.db'}", tmp_path / "b.gz")
    found = (tmp_path / "b.gz").lstat()
    assert (stat.S_ISREG(found.st_mode), stat.S_IMODE(found.st_mode)) == (True, 0o600)
    assert (tmp_path / "elsewhere").read_bytes() == b""


def test_a_backup_is_not_overwritten(small: Path, tmp_path: Path) -> None:
    content = small.read_bytes()
    with pytest.raises(BadValue, match="already exists"):
        backup(f"sqlite:///{tmp_path / 'small.db'}", small)
    assert small.read_bytes() == content
    with pytest.raises(BadValue, match="does not exist"):
        backup(f"sqlite:///{tmp_path / 'small.db'}", tmp_path / "no folder" / "b.gz")


def test_a_restored_store_is_not_restored_into_again(small: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'new.db'}"
    restore(small, url)
    with pytest.raises(BadValue, match="is not empty"):
        restore(small, url)


def changed(file: Path, change: Callable[[list[Any]], list[Any]], *, forged: bool = False) -> None:
    """Edit the lines of a backup; `forged`: with a last line that matches them, as an attacker would write it."""
    lines = change([json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()])
    written = [json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n" for line in lines]
    if forged:
        total = Checksum()
        for line in written[:-1]:
            total.add(line)
        written[-1] = total.last_line()
    file.write_bytes(gzip.compress(b"".join(written)))


def with_header(**fields: Any) -> Callable[[list[Any]], list[Any]]:
    return lambda lines: [{**lines[0], **fields}, *lines[1:]]


def other_client(lines: list[Any]) -> list[Any]:
    return [[("eve" if value == "ann" else value) for value in line] if isinstance(line, list) else line
            for line in lines]  # fmt: skip


def swapped_rows(lines: list[Any]) -> list[Any]:
    rows = [place for place, line in enumerate(lines) if isinstance(line, list)]
    first, second = next((one, two) for one, two in pairwise(rows) if lines[one] != lines[two] and two == one + 1)
    lines[first], lines[second] = lines[second], lines[first]
    return lines


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "cut off": (lambda file: file.write_bytes(file.read_bytes()[:-200]), "not a complete archive|is incomplete"),
    "a flipped byte": (
        lambda file: file.write_bytes(file.read_bytes()[:300] + b"x" + file.read_bytes()[301:]),
        "small.gz",
    ),
    "no end": (lambda file: changed(file, lambda lines: lines[:-1]), "is incomplete"),
    "another value": (lambda file: changed(file, other_client), "changed or damaged"),
    "a missing row": (lambda file: changed(file, lambda lines: [*lines[:-2], lines[-1]]), "changed or damaged"),
    "rows in another order": (lambda file: changed(file, swapped_rows), "changed or damaged"),
    "something added": (lambda file: changed(file, lambda lines: [*lines, ["more"]]), "something was appended"),
    "something else": (lambda file: file.write_bytes(gzip.compress(b'{"a": 1}\n')), "not an archive of Headgate"),
    "not compressed": (lambda file: file.write_text("hello"), "not a complete archive"),
    "nested too deep": (lambda file: file.write_bytes(gzip.compress(b"[" * 10**6)), "not a complete archive"),
    "a newer format": (lambda file: changed(file, with_header(format=3)), "newer Headgate"),
    "an older format": (lambda file: changed(file, with_header(format=1)), "older Headgate"),
    **{
        f"another {field}": (partial(changed, change=with_header(**{field: value})), "changed or damaged")
        for field, value in {"token": 77, "at": 1, "now": 1, "tag": "abcd", "facts": {}}.items()
    },
}
#: Forgeries: the last line matches, the content is invalid.
FORGED: dict[str, tuple[Callable[[list[Any]], list[Any]], str]] = {
    **{
        f"{field} is {value!r}": (with_header(**{field: value}), f"small.gz: .*{field}")
        for field, value in [
            ("token", "7"), ("token", -1), ("token", 2**53), ("token", 1.5), ("token", True), ("at", None), ("now", []),
            ("tag", "../.."), ("tag", 5), ("facts", {"a": 1}), ("facts", []), ("tables", []), ("counts", {}),
            ("counts", {"hg_lock": -1}), ("numbers", {}), ("numbers", {"bid": 1, "jid": 10**10}), ("jumped", 5),
            ("jumped", {"tokens": -5, "ids": 0}), ("schema", 7), ("more", 1),
        ]
    },
    "the key that once signed sessions": (with_header(facts={"api_token_key": "5e" * 32}), "not a valid fact"),
    "a fact of the place": (with_header(facts={"arriving": "x"}), "not a valid fact"),
    "a fact without a number": (with_header(facts={"min_decrypt_version": "x"}), "not a valid fact"),
    "a missing field": (lambda lines: [{k: v for k, v in lines[0].items() if k != "now"}, *lines[1:]], "now"),
    "a short row": (lambda lines: [line[:-1] if isinstance(line, list) else line for line in lines], "row 1 of"),
    "a number in a text": (
        lambda lines: [[[] if value == "ann" else value for value in line] if isinstance(line, list) else line
                       for line in lines],
        "does not fit its column",
    ),
    "an unknown table": (lambda lines: [*lines[:-1], {"table": "users"}, lines[-1]], "'users'"),
    "a table twice": (lambda lines: [*lines[:-1], {"table": "hg_resource"}, lines[-1]], "'hg_resource'"),
    "no table": (lambda lines: [lines[0], ["row"], *lines[1:]], "did not write"),
    "a row too many": (lambda lines: [*lines[:-1], lines[-2], lines[-1]], "differs from that in the first line"),
    "no token left": (with_header(token=2**53 - 5), "exceed 2\\^53"),
    "no id left": (with_header(numbers={"bid": 0, "jid": 10**10 - 5}), "exceed ten digits"),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_changes_nothing(damage: str, small: Path, tmp_path: Path) -> None:
    harm, why = DAMAGE[damage]
    harm(small)
    with pytest.raises(BadPayload, match=why):
        restore(small, f"sqlite:///{tmp_path / 'new.db'}")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["small.db", "small.gz"]


@pytest.mark.parametrize("damage", FORGED)
def test_a_forged_file_is_refused_with_the_reason(damage: str, small: Path, tmp_path: Path) -> None:
    change, why = FORGED[damage]
    changed(small, change, forged=True)
    with pytest.raises(Invalid, match=why):
        restore(small, f"sqlite:///{tmp_path / 'new.db'}")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["small.db", "small.gz"]


def test_contradictory_rows_end_the_restore_with_an_error(small: Path, sql_url: str) -> None:
    """Only an attacker writes such rows. The rows written until then are never used."""
    modes = {"exclusive": "no mode"}
    changed(
        small,
        lambda lines: [[modes.get(value, value) if isinstance(value, str) else value for value in line]
                       if isinstance(line, list) else line for line in lines],
        forged=True,
    )  # fmt: skip
    with pytest.raises(BadPayload, match="the database rejects a row"):
        restore(small, sql_url)
    with pytest.raises(HalfMoved):
        headgate.connect(sql_url)


def test_every_edit_of_a_byte_ends_in_an_error_message(made_once: Path, tmp_path: Path) -> None:
    whole = (made_once / "small.gz").read_bytes()
    plain = gzip.decompress(whole)
    file = tmp_path / "edited.gz"

    @settings(max_examples=150, deadline=None, derandomize=True, database=None)
    @given(
        of_the_text=st.booleans(),
        place=st.floats(0, 1, exclude_max=True),
        put=st.binary(max_size=3),
        removed=st.integers(0, 3) | st.just(10**9),
    )
    def edited(*, of_the_text: bool, place: float, put: bytes, removed: int) -> None:
        before = plain if of_the_text else whole
        start = int(place * len(before))
        after = before[:start] + put + before[start + removed :]
        file.write_bytes(gzip.compress(after, 1) if of_the_text else after)
        try:
            source = ArchiveSource(file, accept_backup)
        except Invalid:
            return
        # The digest does not cover irrelevant data: how the text is compressed, and when.
        assert gzip.decompress(file.read_bytes()) == plain
        assert source.contents.counts["hg_lock"] == 2

    edited()
    assert not (tmp_path / "edited.gz.restored").exists()


@pytest.mark.parametrize("refused", ["damaged", "another schema"])
def test_a_refused_restore_leaves_an_empty_database_as_empty_as_it_was(refused: str, small: Path, sql_url: str) -> None:
    if refused == "damaged":
        changed(small, with_header(token=5))
    else:
        changed(small, with_header(schema="0000"), forged=True)
    with pytest.raises(Invalid, match="headgate migrate" if refused == "another schema" else "changed or damaged"):
        restore(small, sql_url)
    looked = Database(dialect_for(sql_url))
    looked.dialect.read_only = True
    try:
        assert opening.table_names(looked) == set()
    finally:
        looked.close()


def test_the_commands_on_the_page_run_unchanged(tmp_path: Path) -> None:
    (block,) = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    done = in_shell(tmp_path, block)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("and compared them") == 3


def test_a_backup_names_the_store_that_it_does_not_contain() -> None:
    assert not_backed_up(load({"url": "sqlite:///a"})) == []
    (told,) = not_backed_up(load({"url": "sqlite:///a", "coordination_url": "zookeeper://zk1/x"}))
    assert "zookeeper://zk1/x" in told


def test_a_service_cannot_be_backed_up_through_its_url(tmp_path: Path) -> None:
    settings = load({}, {"HEADGATE_SERVER": "http://127.0.0.1:8750"}, tmp_path)
    with pytest.raises(BadValue, match="is a service"), backing_up(settings, tmp_path / "b.gz"):
        pass
