"""Environment variables: which ones a job's definition may set for a worker, and which ones a handler's command gets.

Some variables make programs run code: PATH, LD_PRELOAD, BASH_ENV, PYTHONPATH, GIT_SSH_COMMAND, and more every year. A
list of them is never complete, so the rule lists what is allowed: a prefix that no program reads for itself, and names
that the owner of the worker adds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headgate.core.errors import BadValue

#: The prefix of a job's variables.
JOB_PREFIX = "PARAM_"
#: The prefix of Headgate's own variables; a job never sets one.
OWN_PREFIX = "HEADGATE_"
#: The setting by which the owner of a worker allows more names.
JOB_SETTING = "job_variables"
#: The part of the daemon's environment that the command of `daemon --exec` gets, unless a setting adds to it.
COMMAND_VARIABLES = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR", "XDG_RUNTIME_DIR",
    "SSL_CERT_FILE", "SSL_CERT_DIR",
)  # fmt: skip
_NAME = re.compile(r"[A-Z][A-Z0-9_]{0,254}", re.ASCII)
_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[A-Za-z][A-Za-z0-9_]*_\*", re.ASCII)


@dataclass(frozen=True, slots=True)
class NamePatterns:
    """Names of variables, and prefixes of such names."""

    names: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()

    @classmethod
    def of(cls, patterns: Iterable[str]) -> NamePatterns:
        """From a list of NAME or PREFIX_*. ValueError for anything else."""
        given = list(patterns)
        for each in given:
            if not _PATTERN.fullmatch(each):
                raise ValueError(f"lists {each}, which is neither the name of a variable nor a prefix such as MY_*")
        prefixes = tuple(each.removesuffix("*") for each in given if each.endswith("*"))
        return cls(frozenset(each for each in given if not each.endswith("*")), prefixes)

    def __contains__(self, name: str) -> bool:
        return name in self.names or name.startswith(self.prefixes)


#: Only the prefix.
NO_MORE = NamePatterns()


def parse_patterns(text: str) -> NamePatterns:
    """Patterns separated by commas or blanks. ValueError for an invalid one."""
    return NamePatterns.of(text.replace(",", " ").split())


def check_job_variables(variables: Mapping[str, str], more: NamePatterns, where: str) -> None:
    """Raise BadValue unless a job may set all of these; `more`: names allowed beside PARAM_…; `where`: by whom."""
    for name in variables:
        if not _NAME.fullmatch(name) or name.startswith(OWN_PREFIX):
            why = "is not a name that a job may set: capitals, digits and _, beginning with " + JOB_PREFIX
            raise BadValue("variable", name, why)
        if not name.startswith(JOB_PREFIX) and name not in more:
            raise BadValue(
                "variable",
                name,
                (
                    f"may not be set by a job {where}: name it {JOB_PREFIX}{name}, or ask the operator of the workers "
                    f"to allow it in the setting {JOB_SETTING}"
                ),
            )
