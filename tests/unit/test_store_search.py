"""How a store is found when no URL is given."""

import os
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from headgate import NoStore
from headgate.settings import load
from headgate.store_opening import named_store, own_url
from headgate.store_search import search
from tests.users import as_user

#: Users that root does not know.
STRANGER, GROUP = 54321, 54322


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home folder with a project, two folders deep."""
    (tmp_path / "home" / "project" / "below").mkdir(parents=True)
    return tmp_path / "home"


def found(home: Path, folder: Path, **environment: str) -> tuple[str, str]:
    used = named_store(load(environment={"HOME": str(home), **environment}, folder=folder))
    return used.url, used.found_by


def test_the_nearest_file_counts_and_paths_in_it_are_relative_to_it(home: Path) -> None:
    project, below = home / "project", home / "project" / "below"
    with pytest.raises(NoStore, match=rf"no headgate.toml or headgate.db from {below} up to {home}\. .*headgate init"):
        found(home, below)
    (home / "headgate.db").touch()
    assert found(home, below) == (f"sqlite:///{home}/headgate.db", f"file {home}/headgate.db")
    (project / "headgate.db").touch()
    assert found(home, below)[0] == f"sqlite:///{project}/headgate.db"
    (project / "headgate.toml").write_text('client = "ann"')  # It names no store, so the one beside it counts.
    assert found(home, below)[0] == f"sqlite:///{project}/headgate.db"
    (project / "headgate.toml").write_text('url = "sqlite:///data/x.db"\njob_key_file = "key"\nstorage_root = "/srv"')
    assert found(home, below) == (f"sqlite:///{project}/data/x.db", f"file {project}/headgate.toml")
    settings = load(environment={"HOME": str(home)}, folder=below)
    assert {name: settings[name] for name in ("job_key_file", "storage_root", "work_folder", "master_key_file")} == {
        "job_key_file": f"{project}/key", "storage_root": "/srv", "work_folder": f"{project}/headgate-work",
        "master_key_file": "",
    }  # fmt: skip


def test_variables_and_flags_take_precedence_and_the_users_file_comes_last(home: Path) -> None:
    project = home / "project"
    (home / ".config" / "headgate").mkdir(parents=True)
    user = home / ".config" / "headgate" / "headgate.toml"
    user.write_text('url = "sqlite:///mine.db"')
    assert found(home, project) == (f"sqlite:///{user.parent}/mine.db", f"file {user}")
    (project / "headgate.db").touch()
    assert found(home, project)[1] == f"file {project}/headgate.db"
    named = {"HEADGATE_URL": "postgresql://me:secret@db1/x"}
    assert found(home, project, **named) == ("postgresql://me:***@db1/x", "variable HEADGATE_URL")
    settings = load({"url": "sqlite:///flag.db"}, {"HOME": str(home), **named}, project)
    assert (named_store(settings).url, named_store(settings).found_by) == ("sqlite:///flag.db", "flag --url")
    assert named_store(load({"coordination_url": "zookeeper://zk1"}, {"HOME": str(home)}, project)) == type(
        named_store(settings)
    )(f"sqlite:///{project}/headgate.db", f"file {project}/headgate.db", "zookeeper://zk1", "flag --coordination-url")


def test_the_search_ends_at_the_home_folder_and_at_a_mount_point(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    below = home / "project" / "below"
    (home.parent / "headgate.db").touch()
    assert search(below, str(home)).files == []
    assert search(below, str(home)).end == home
    assert search(below, "/somewhere/else").files == [home.parent / "headgate.db"]
    real = os.path.ismount
    monkeypatch.setattr("os.path.ismount", lambda path: path == home / "project" or real(path))
    assert search(below, "/somewhere/else").end == home / "project"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_files_that_others_could_have_written_are_skipped_with_a_note(home: Path) -> None:
    project, file = home / "project", home / "project" / "headgate.db"
    file.touch()
    cases: list[tuple[Callable[[], object], Callable[[], object], str]] = [
        (partial(os.chown, file, STRANGER, -1), partial(os.chown, file, 0, -1), f"it belongs to user {STRANGER}"),
        (partial(file.chmod, 0o646), partial(file.chmod, 0o644), "every user can write it"),
        (partial(project.chmod, 0o757), partial(project.chmod, 0o755), "every user can write in its folder"),
        (partial(project.chmod, 0o1777), partial(project.chmod, 0o755), "every user can write in its folder"),
        (partial(os.chown, project, STRANGER, -1), partial(os.chown, project, 0, -1), "its folder belongs to user"),
        (
            partial(subprocess.run, ["sh", "-c", f"chgrp {GROUP} {project} && chmod 775 {project}"], check=True),
            partial(os.chown, project, 0, 0),
            f"the group {GROUP} can write in its folder",
        ),
    ]
    for spoil, repair, why in cases:
        spoil()
        with pytest.raises(NoStore, match=f"{file} is not used: {why}"):
            own_url(load(environment={"HOME": str(home)}, folder=project))
        repair()
        assert search(project, str(home)).files == [file], why
    link = project / "headgate.toml"
    link.symlink_to(home / "mine.toml")
    (home / "mine.toml").touch()
    os.chown(link, STRANGER, -1, follow_symlinks=False)
    assert search(project, str(home)).passed_over == (f"{link} is not used: it belongs to user {STRANGER}",)


def test_a_missing_or_unreadable_folder_is_treated_as_empty(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = home / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert search(None, str(home)).files == []
    assert search(Path("/proc/1/root/x"), "").files == []
    private = home / "private"
    (private / "below").mkdir(parents=True)
    private.chmod(0o700)
    monkeypatch.chdir(private / "below")
    if os.getuid() == 0:  # Another user who came here with su.
        found = as_user(STRANGER, [GROUP], lambda: search(None, "/nowhere").files)
        assert found == []
