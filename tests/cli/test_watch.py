"""`headgate watch`: its exit code for cron, and its preview for users."""

import pytest

from tests.cli.commands import Headgate

PIPELINE = """
[dataset.lost.watch]
folder = "nowhere"
pattern = "{x}.csv"
[dataset.raw.watch]
folder = "in"
pattern = "{x}.csv"
ready = "whole"
"""
NO_MATCH = "it does not match pattern"


@pytest.fixture
def pipeline(headgate: Headgate) -> Headgate:
    (headgate.folder / "pipeline.toml").write_text(PIPELINE)
    (headgate.folder / "in").mkdir()
    (headgate.folder / "in/1.csv").touch()
    assert headgate("define", "pipeline.toml").code == 0
    return headgate


def test_a_folder_that_cannot_be_listed_is_a_failure_and_does_not_block_others(pipeline: Headgate) -> None:
    found = pipeline("watch", "run", "pipeline.toml", "--once")
    assert (found.code, "nowhere: cannot be listed" in found.err) == (69, True)
    assert found.out.splitlines()[1] == "raw: 1 published"
    (pipeline.folder / "nowhere").mkdir()
    assert pipeline("watch", "run", "pipeline.toml", "--once").code == 0


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ('patern = "x"', "dataset.raw.watch.patern 'x' in pipeline.toml, line 8, is unknown; did you mean 'pattern'?"),
        ('marker = "{x}.csv"', "dataset.raw.watch.marker '{x}.csv' in pipeline.toml, line 8, is the file itself"),
    ],
)
def test_a_mistake_in_a_watch_is_named_with_its_line(pipeline: Headgate, key: str, why: str) -> None:
    (pipeline.folder / "pipeline.toml").write_text(PIPELINE.replace('ready = "whole"', key))
    for words in (("watch", "check"), ("define",)):
        done = pipeline(*words, "pipeline.toml")
        assert (done.code, why in done.err) == (2, True), done.err


@pytest.mark.parametrize(
    ("keys", "reasons"),
    [
        ('marker = "{name}.done"', ["", "it is the marker of 1.csv", "its marker 2.csv.done is not there", NO_MATCH]),
        ('suffixes = ["_R1.gz"]', ["it ends in none of the suffixes"] * 4),
        ('suffixes = ["v"]', [f"{NO_MATCH} before its suffix", "it ends in none of the suffixes",
                              f"{NO_MATCH} before its suffix", "it ends in none of the suffixes"]),
    ],
)  # fmt: skip
def test_check_shows_why_each_file_is_not_counted(pipeline: Headgate, keys: str, reasons: list[str]) -> None:
    for name in ("1.csv.done", "2.csv", "notes.txt"):
        (pipeline.folder / "in" / name).touch()
    (pipeline.folder / "pipeline.toml").write_text(PIPELINE.replace('ready = "whole"', keys))
    done = pipeline("watch", "check", "pipeline.toml", "raw", "--json")
    assert [each["why"] for each in done.json["items"]] == reasons


def test_check_refuses_what_the_watcher_refuses(pipeline: Headgate) -> None:
    """A name that cannot be kept, also where it is no part of the data id."""
    (pipeline.folder / "in/a\n2026.csv").touch()
    text = PIPELINE.replace('"{x}.csv"\nready = "whole"', '"{x}{d:%Y}.csv"\nid = "{d}"\nfiles = 2\nsettle = 0')
    (pipeline.folder / "pipeline.toml").write_text(text)
    why = "has characters that are not printable, or is not in UTF-8"
    assert pipeline("watch", "check", "pipeline.toml", "raw", "--json").json["items"][1]["why"] == why
    assert why in pipeline("watch", "run", "pipeline.toml", "raw", "--once").out
