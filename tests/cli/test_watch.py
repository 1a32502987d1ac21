"""`headgate watch`: what its exit code says to cron."""

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


@pytest.fixture
def pipeline(headgate: Headgate) -> Headgate:
    (headgate.folder / "pipeline.toml").write_text(PIPELINE)
    (headgate.folder / "in").mkdir()
    (headgate.folder / "in/1.csv").touch()
    assert headgate("define", "pipeline.toml").code == 0
    return headgate


def test_a_folder_that_cannot_be_listed_is_a_failure_and_keeps_no_other_back(pipeline: Headgate) -> None:
    found = pipeline("watch", "run", "pipeline.toml", "--once")
    assert (found.code, "nowhere: cannot be listed" in found.err) == (69, True)
    assert found.out.splitlines()[1] == "raw: 1 published"
    (pipeline.folder / "nowhere").mkdir()
    assert pipeline("watch", "run", "pipeline.toml", "--once").code == 0
