"""Conversion of the resources that a request names, each with a mode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from headgate.core.errors import BadValue
from headgate.core.locks.model import Want
from headgate.core.locks.parsing import parse_mode
from headgate.core.values.names import check_resource


class Single(NamedTuple):
    """The single resource of a request, and its mode."""

    resource: str
    mode: str


#: Resources, each with a mode.
Wanted = Mapping[str, str] | Single


def check_wants(resources: Wanted, most: int) -> tuple[Want, ...]:
    """Return each resource with its mode, sorted. Raises BadValue for more than `most`."""
    return tuple(Want(check_resource(uri), parse_mode(mode)) for uri, mode in sorted_pairs(resources, most))


def sorted_pairs(resources: Wanted, most: int) -> list[tuple[str, str]]:
    """Return each resource with its mode as given, sorted. Raises BadValue for none, or more than `most`."""
    if isinstance(resources, Single):
        return [resources]
    if not isinstance(resources, Mapping):
        raise BadValue("resources", resources, "is not a mapping of resource to mode")
    if not resources:
        raise BadValue("resources", resources, "is empty; name at least one")
    if len(resources) > most:
        why = f"are too many for one request; at most {most:,} are accepted (setting resource_limit)"
        raise BadValue("resources", f"{len(resources):,} of them", why)
    return sorted(resources.items(), key=lambda pair: str(pair[0]))
