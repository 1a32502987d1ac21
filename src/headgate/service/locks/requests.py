"""A request for locks as a caller words it, checked once, for the library and for the service."""

from __future__ import annotations

from headgate.calls.actor import actor
from headgate.core.locks.model import Request, Want
from headgate.core.values.names import check_name, check_note, check_request_id
from headgate.service.access.identity import new_request_id
from headgate.service.checks import check_lease


def checked_request(
    client: str, wants: tuple[Want, ...], *, lease: float | None, lock_delay: float, reentrant: bool, note: str,
    owner: str, request_id: str | None,
) -> Request:  # fmt: skip
    """Return the request of this call's actor, or raise BadValue. With a given id it may be a repeat."""
    who = actor()
    return Request(
        id=new_request_id() if request_id is None else check_request_id(request_id),
        client=check_name("client", client),
        wants=wants,
        lease=check_lease(lease),
        lock_delay=lock_delay,
        reentrant=reentrant,
        owner=owner,
        note=check_note("note", note),
        fresh=request_id is None,
        principal=who.principal,
        override=who.override,
    )
