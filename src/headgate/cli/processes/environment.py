"""The environment of users' commands.

`lock run` and `job run` run a user's own command, which needs the environment of the user's shell (modules, CUDA, MPI,
Slurm): it gets everything except Headgate's secrets. A daemon's command processes untrusted data with the daemon's
permissions: it gets a short list, extended by the setting `exec_variables`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from headgate.core.known_settings import WITHHELD
from headgate.core.values.redaction import mask
from headgate.core.values.variables import COMMAND_VARIABLES, NamePatterns
from headgate.settings import Settings

API_TOKEN = "HEADGATE_API_TOKEN"  # noqa: S105 - its name
#: The variables by which a command that calls headgate finds the same store; a password in it is masked, so that such a
#: call fails rather than uses another store.
STORE_VARIABLES = ("HEADGATE_URL", "HEADGATE_COORDINATION_URL", "HEADGATE_SERVER")


def withheld(*, pass_api_token: bool) -> dict[str, None]:
    """Variables of ours that a user's command does not get."""
    return dict.fromkeys(name for name in WITHHELD if name != API_TOKEN or not pass_api_token)


def for_daemon_command(settings: Settings, flags: Mapping[str, str]) -> dict[str, str]:
    """The environment of a daemon's command; `flags`: the store that the command line names."""
    usual, more = NamePatterns.of(COMMAND_VARIABLES), settings.variables("exec_variables")
    ours = {**os.environ, **flags}
    passed = {name: value for name, value in ours.items() if name in usual or name in more}
    return {name: mask(ours[name]) for name in STORE_VARIABLES if name in ours} | passed
