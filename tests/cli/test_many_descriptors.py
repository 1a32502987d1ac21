"""Commands run where more descriptors are open than `select` knows."""

import os
from collections.abc import Iterator

import pytest

from tests.cli.commands import Headgate
from tests.waiting import until

KNOWN_TO_SELECT = 1024
PIPELINE = """
dataset = { raw = {}, tidy = {} }
[job.clean]
inputs = ["raw"]
outputs = ["tidy"]
command = "echo done"
"""


@pytest.fixture
def many() -> Iterator[list[int]]:
    made = [os.open(os.devnull, os.O_RDONLY)]
    while made[-1] <= KNOWN_TO_SELECT:
        made.append(os.dup(made[0]))
    # All others too: a command opens the lowest one that is free.
    yield [each for each in range(3, made[-1] + 1) if _is_open(each)]
    for each in made:
        os.close(each)


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


@pytest.mark.parametrize(
    "words",
    [
        "lock run file:///r -- true",
        "job run clean -- true",
        "work -f pipeline.toml",
        "work -f pipeline.toml --until-done",
    ],
    ids=["lock", "job", "work", "work until done"],
)
def test_a_command_runs_where_many_descriptors_are_open(headgate: Headgate, many: list[int], words: str) -> None:
    (headgate.folder / "pipeline.toml").write_text(PIPELINE)
    assert headgate("define", "pipeline.toml").code == 0
    assert headgate("data", "publish", "raw", "1").code == 0
    process = headgate.start(*words.split(), pass_fds=many)
    _, errors = process.communicate()
    assert process.returncode == 0, errors.decode()


def test_a_worker_with_many_descriptors_hears_of_new_work(headgate: Headgate, many: list[int]) -> None:
    (headgate.folder / "pipeline.toml").write_text(PIPELINE)
    assert headgate("define", "pipeline.toml").code == 0
    process = headgate.start("work", "-f", "pipeline.toml", "--forever", pass_fds=many)
    for dataid in ("1", "2"):
        assert headgate("data", "publish", "raw", dataid).code == 0
        until(lambda: headgate("job", "wait", "clean", "--timeout", "0").code == 0, "the chunk to be done")
    process.terminate()
    _, errors = process.communicate()
    assert b"Traceback" not in errors, errors.decode()
