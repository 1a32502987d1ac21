"""Stores are found rather than created: only `init`, `up` and a store that is named for the run create one."""

import json
import sqlite3
from pathlib import Path

import pytest

from tests.cli.commands import Headgate


class Below(Headgate):
    """The command in a folder below the home folder, without a variable that names a store."""

    def __init__(self, home: Path, name: str) -> None:
        super().__init__("", home / name)
        self.home = home
        self.folder.mkdir(parents=True)

    def environment(self, **more: str) -> dict[str, str]:
        return super().environment(**{"HOME": str(self.home), **more})


@pytest.fixture
def here(tmp_path: Path) -> Below:
    return Below(tmp_path, "one")


def test_no_command_creates_a_store_in_the_working_folder(here: Below, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    pipeline = here.folder / "pipeline.toml"
    pipeline.write_text("[dataset.raw]\n")
    ran = here.folder / "ran"
    for words in (
        ("status",), ("doctor",), ("history",), ("lock", "list"), ("token", "list"),
        ("lock", "run", "cron:nightly", "--", "touch", str(ran)), ("store", "show"),
        ("define", "pipeline.toml"), ("ingest", "jobs"), ("daemon", "--once"), ("migrate",), ("backup", "b.gz"),
        ("job", "run", "clean", "--", "touch", str(ran)),
    ):  # fmt: skip
        done = here(*words)
        assert (done.code, "there is no store" in done.err, "headgate init" in done.err) == (2, True, True), words
        assert "Traceback" not in done.err
    assert here("status", "--json").error["error"] == "no-store"
    assert here("settings").code == 0
    assert sorted(path.name for path in here.folder.iterdir()) == ["pipeline.toml"]


def test_init_creates_a_store_that_commands_below_find_and_elsewhere_do_not(here: Below) -> None:
    made = here("init")
    url = f"sqlite:///{here.folder}/headgate.db"
    assert (made.code, made.out) == (0, f"created a store: {url}\n")
    for told in (f"commands in {here.folder} and below it use this store", f"HEADGATE_URL={url}", "headgate up"):
        assert told in made.err
    again = here("init")
    assert (again.code, again.out) == (0, f"the store exists already: {url}\n")
    below = Below(here.home, "one/below")
    assert below("lock", "acquire", "cron:nightly", "--client", "a").code == 0
    assert here("lock", "run", "cron:nightly", "--", "true").code == 75
    assert below("init").err.endswith("to create another one in this folder: headgate init headgate.db\n")
    assert f"store: {url} (file {here.folder}/headgate.db)\n" in below("status").out
    assert f"store: {url} (file {here.folder}/headgate.db)\n" in below("doctor").out
    rich = below("status", "--json", "--rich").json["store"]
    assert (rich["url"], rich["found_by"]) == (url, f"file {here.folder}/headgate.db")
    assert [path.name for path in below.folder.iterdir()] == []
    assert Below(here.home, "two")("lock", "run", "cron:nightly", "--", "true").code == 2
    assert below("init", "headgate.db", "--json").json["created"] is True
    assert below("lock", "list").out == "no locks\n"


def test_init_writes_a_settings_file_if_the_store_would_not_be_found(here: Below) -> None:
    (here.folder / "headgate.toml").write_text('client = "ann"\n')
    done = here("init", "data/orders.db")
    assert (done.code, "the folder" in done.err) == (2, True)
    (here.folder / "data").mkdir()
    done = here("init", "data/orders.db", "--json")
    assert done.json == {
        "store": f"sqlite:///{here.folder}/data/orders.db", "created": True,
        "settings_file": f"{here.folder}/headgate.toml",
    }  # fmt: skip
    assert (here.folder / "headgate.toml").read_text() == 'url = "sqlite:///data/orders.db"\nclient = "ann"\n'
    assert here("init", "data/orders.db", "--json").json["settings_file"] is None
    other = here("init", "headgate.db")
    assert (other.code, "cannot be the store of" in other.err, "headgate copy" in other.err) == (2, True, True)
    assert here("status").code == 0
    elsewhere = here("init", str(here.folder.parent / "three"))
    assert elsewhere.out == f"created a store: sqlite:///{here.folder.parent}/three/headgate.db\n"
    assert "a service" in here("init", "http://127.0.0.1:8750").err
    assert "HEADGATE_URL names another store" in here("init", "data/orders.db", HEADGATE_URL="sqlite:////x.db").err
    assert here("init", "a.db", "--url", "sqlite:///b.db").code == 2


def test_a_store_in_a_folder_that_others_can_write_is_ignored(here: Below) -> None:
    here.folder.chmod(0o777)
    refused = here("init")
    assert (refused.code, "every user can write" in refused.err) == (2, True)
    assert list(here.folder.iterdir()) == []
    assert here("up", "--once", "--listen", "127.0.0.1:0").code == 2
    named = here("init", "headgate.db")
    assert (named.code, "commands do not find it automatically" in named.err) == (0, True)
    passed = here("status")
    assert (passed.code, f"{here.folder}/headgate.db is not used: every user can write" in passed.err) == (2, True)


def test_up_creates_the_store_of_its_folder_and_says_so(here: Below) -> None:
    first = here("up", "--once", "--listen", "127.0.0.1:0")
    assert (first.code, f"created a store: sqlite:///{here.folder}/headgate.db" in first.err) == (0, True), first.err
    assert here("lock", "list").out == "no locks\n"


def test_a_store_named_in_a_file_is_created_only_by_init(store_url: str, here: Below) -> None:
    (here.folder / "headgate.toml").write_text(f"url = {json.dumps(store_url)}\n")
    for words in (("status",), ("lock", "list"), ("doctor",)):
        done = here(*words)
        assert (done.code, "holds no store yet" in done.err, "headgate init" in done.err) == (2, True, True), done.err
        assert f"named by file {here.folder}/headgate.toml" in done.err
    assert here("init").out.startswith("created a store: ")
    assert here("init").out.startswith("the store exists already: ")
    assert here("lock", "list").out == "no locks\n"
    named = here("status", "--url", store_url)
    assert (named.code, "(flag --url)" in named.out) == (0, True)


def test_an_empty_file_is_not_a_store(here: Below) -> None:
    sqlite3.connect(here.folder / "headgate.db").close()
    (here.folder / "headgate.db").touch()
    assert (here("status").code, here("migrate").code) == (2, 2)
    assert here("init").out.startswith("created a store: ")
