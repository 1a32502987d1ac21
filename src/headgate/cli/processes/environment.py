"""The environment of commands that we run.

`lock run` and `job run` stand in front of a person's own command, which needs all that the person's shell has (modules,
CUDA, MPI, Slurm): it gets everything but Headgate's secrets. A daemon's command works on data from strangers with the
daemon's rights: it gets a short list, and what the setting `exec_variables` adds.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from headgate.core.known_settings import WITHHELD
from headgate.core.values.redaction import mask
from headgate.core.values.variables import COMMAND_VARIABLES, NamePatterns
from headgate.settings import Settings

API_TOKEN = "HEADGATE_API_TOKEN"  # noqa: S105 - its name
#: Where a command that calls headgate finds the same store; a password in it is masked, so that such a call fails
#: rather than goes to another store.
STORE_VARIABLES = ("HEADGATE_URL", "HEADGATE_COORDINATION_URL", "HEADGATE_SERVER")


def withheld(*, pass_api_token: bool) -> dict[str, None]:
    """Variables of ours that a person's command does not get."""
    return dict.fromkeys(name for name in WITHHELD if name != API_TOKEN or not pass_api_token)


def for_daemon_command(settings: Settings, flags: Mapping[str, str]) -> dict[str, str]:
    """The environment of a daemon's command; `flags`: the store that the command line names."""
    usual, more = NamePatterns.of(COMMAND_VARIABLES), settings.variables("exec_variables")
    ours = {**os.environ, **flags}
    passed = {name: value for name, value in ours.items() if name in usual or name in more}
    return {name: mask(ours[name]) for name in STORE_VARIABLES if name in ours} | passed
