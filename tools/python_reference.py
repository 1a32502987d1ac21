"""A Sphinx extension for the Python reference: each documented method lists all of its parameters.

A parameter is described by `:param name: …` in the docstring of the method, or in that of its class when it means the
same in several methods. Signatures and sentences both come from the code, so the pages only name what they show.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import headgate
from headgate.core import errors

#: Methods and attributes that the service, the commands and the daemons use among themselves. They may change with any
#: version, and are not in the reference.
INTERNAL: Mapping[str, frozenset[str]] = {
    name: frozenset(members.split())
    for name, members in {
        "Gate": """answer_within deposits epochs guards ingest keeps_repeats make_work_folder narrowed profiles_folder
            repeats root service sessions sight store store_group upkeep""",
        "Locks": "must_outlive resource_limit steps summary tending watch_loss",
        "Ledger": "custody looking_for_next",
        "LedgerWaits": "following looking_for_work",
        "LedgerReader": "left_of next_of rows spans tallies",
        "Queue": "check_profile create_portion looking presence",
        "QueueReader": "first_free following tables",
        "Inventory": """claim_local_ids delay delivered due faults forget keep_intake post record remove repair
            set_problem settle undelivered""",
        "History": "activity books",
        "Tokens": "ended good note_use prove recall",
        "Secrets": "check custody key new_holders open sealed share",
        "Settings": """count has is_flag keep limit number origin said_by searched seconds secrets size source strongest
            variables""",
        "ApiToken": "reach",
        "Dataset": "may_hold",
        "InputMap": "in_order sources",
        "Entry": "place",
        "Lock": "granted_at",
        "Row": "lease_sentence",
        "KeptAlive": "busy deadline gone give_up loss start stop",
        "LockHold": "loss start stop",
        "ClaimHold": "loss",
        "ItemHold": "loss",
    }.items()
}
_PARAMETER = re.compile(r"^:param (\w+): ", re.MULTILINE)
#: Attributes are shown to the hook without their class.
_ATTRIBUTES = frozenset(
    ["busy", "custody", "guards", "known", "presence", "resource_limit", "root", "searched", "service", "sight"]
)
#: Names of errors in a sentence become links.
_ERROR = re.compile(rf"(?<![\w`.])({'|'.join(sorted(n for n in headgate.__all__ if hasattr(errors, n)))})(?![\w`])")


def public_classes() -> dict[str, type]:
    """Every public class that is not an error, by name."""
    found = {name: getattr(headgate, name) for name in headgate.__all__}
    return {name: each for name, each in found.items() if inspect.isclass(each) and not issubclass(each, BaseException)}


def methods_of(kind: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public methods of a class, with those that it inherits from other classes of Headgate."""
    for member, value in inspect.getmembers(kind, inspect.isfunction):
        hidden = member.startswith("_") and member != "__call__"
        owner = value.__qualname__.partition(".")[0]
        if not hidden and member not in INTERNAL.get(owner, ()) and value.__module__.startswith("headgate"):
            yield member, value


def parameters_of(function: Callable[..., Any]) -> list[str]:
    """The names of its parameters."""
    found = list(inspect.signature(function).parameters)
    return [name for name in found if name not in ("self", "cls")]


def described_in(docstring: str | None) -> dict[str, str]:
    """The sentence about each parameter that a docstring describes."""
    _, *parts = _PARAMETER.split(inspect.cleandoc(docstring or ""))
    bodies = (body.partition("\n\n")[0] for body in parts[1::2])
    return {name: " ".join(body.split()) for name, body in zip(parts[::2], bodies, strict=True)}


def sentences_for(kind: type, function: Callable[..., Any]) -> dict[str, str]:
    """The sentence about each parameter of a method, from its docstring or that of its class."""
    known = described_in(kind.__doc__) | described_in(function.__doc__)
    return {name: known[name] for name in parameters_of(function) if name in known}


def undescribed(name: str, kind: type) -> Iterator[str]:
    """Each parameter of a public method without a sentence, as Class.method(parameter)."""
    for method, function in methods_of(kind):
        missing = [each for each in parameters_of(function) if each not in sentences_for(kind, function)]
        yield from (f"{name}.{method}({each})" for each in missing)


def superfluous(name: str, kind: type) -> Iterator[str]:
    """Each described parameter that no method has."""
    taken = {method: set(parameters_of(function)) for method, function in methods_of(kind)}
    if not is_dataclass(kind):
        known = set().union(*taken.values()) if taken else set()
        yield from (f"{name}: {each}" for each in described_in(kind.__doc__) if each not in known)
    for method, function in methods_of(kind):
        yield from (f"{name}.{method}: {each}" for each in described_in(function.__doc__) if each not in taken[method])


def _complete(_app: Any, what: str, name: str, thing: Any, _options: Any, lines: list[str]) -> None:
    """Add the parameters that the class describes to a method, and take them out of the text of the class."""
    owner = getattr(headgate, name.split(".")[1], None) if name.count(".") == 2 else None
    if what == "class":
        lines[:] = _PARAMETER.split("\n".join(lines))[0].splitlines()
    elif inspect.isclass(owner) and inspect.isfunction(thing):
        text = _PARAMETER.split("\n".join(lines))[0].rstrip()
        described = [f":param {key}: {sentence}" for key, sentence in sentences_for(owner, thing).items()]
        lines[:] = [*text.splitlines(), "", *described, ""]
    elif what == "attribute" and not any(lines) and is_dataclass(owner):
        lines[:] = [each.metadata.get("meaning", "") for each in fields(owner) if name.endswith(f".{each.name}")]
    lines[:] = [_ERROR.sub(r":py:exc:`~headgate.\1`", line) for line in lines]


def _skip(_app: Any, _what: str, name: str, thing: Any, skip: bool, _options: Any) -> bool | None:  # noqa: FBT001
    """Leave out what is internal."""
    function = getattr(thing, "fget", None) or getattr(thing, "func", None) or thing
    owner = getattr(function, "__qualname__", "").partition(".")[0]
    names = INTERNAL.get(owner, ()) if owner in INTERNAL else _ATTRIBUTES
    return True if name in names else skip or None


def setup(app: Any) -> None:
    """Join Sphinx."""
    app.connect("autodoc-process-docstring", _complete)
    app.connect("autodoc-skip-member", _skip)
