"""Principals of the service: valid names, and whether one may change what another holds."""

from __future__ import annotations

from headgate.core.access.owners import LOCAL, Actor, Override
from headgate.core.errors import BadValue, NotOwner
from headgate.core.values.names import check_name

#: A request id has room for it.
PRINCIPAL_LENGTH = 100


def check_principal(value: object) -> str:
    """The name of a principal of the service: like other names, but without a colon, and not `local`."""
    name = check_name("principal", value)
    if ":" in name:
        raise BadValue("principal", value, "has a colon, which separates the parts of a request id; remove it")
    if len(name) > PRINCIPAL_LENGTH:
        raise BadValue("principal", value, f"has {len(name)} characters; at most {PRINCIPAL_LENGTH} are allowed")
    if name == LOCAL:
        raise BadValue(
            "principal",
            value,
            ("is reserved for clients that use the store directly; choose another one for the API token"),
        )
    return name


def must_own(actor: Actor, what: str, owner: str) -> tuple[Override, ...]:
    """Raise NotOwner when the caller may not change what this owner holds.

    Returns the override to log when the caller changes what another principal owns.
    """
    if not actor.may_touch(owner):
        raise NotOwner(what, owner, actor.principal)
    return (Override(what, owner),) if actor.override and owner not in ("", actor.principal) else ()
