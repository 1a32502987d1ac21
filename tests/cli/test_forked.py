"""The process that commands are forked from does for them what `subprocess.run` does."""

import pytest

from tests.cli.commands import PROGRAM, Headgate, read_at_start
from tests.cli.forked import Forge


def test_a_command_that_does_not_end_in_time_is_killed(headgate: Headgate) -> None:
    environment = headgate.environment()
    forge = Forge(dict(read_at_start(environment)), patience=1.0)
    with pytest.raises(TimeoutError):
        # It comes back when nobody can write to the command's streams any more: when the command is gone.
        forge.run([str(PROGRAM), "daemon", "--interval", "1h"], b"", environment, headgate.folder)
    forge.close()
