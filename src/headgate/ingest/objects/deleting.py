"""Deleting a stored object: its bytes, its records in the inventory, and its chunks in the ledger."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack

from headgate.core.errors import UnknownName
from headgate.core.inventory import StoredObject
from headgate.core.ledger.model import chunk_resource
from headgate.core.locks.model import Mode
from headgate.core.values.names import check_reason
from headgate.ingest.context import Context
from headgate.ingest.formats.ark import dataid, parse_object
from headgate.ingest.objects.reading import storage_of
from headgate.ingest.steps.storing import object_resource


def find_object(context: Context, name: str) -> StoredObject:
    """An object by its ARK. UnknownName when it is not in the inventory."""
    ark = str(parse_object(name))
    found = context.inventory.objects(ark=ark)
    if not found:
        raise UnknownName("object", ark, "List them with: headgate ingest objects")
    return found[0]


def delete_object(context: Context, client: str, name: str, *, reason: str, wait: float = 0) -> StoredObject:
    """Delete an object with all its versions, while it is not being read, extended, or processed as a chunk.

    The bytes are removed first: if the process is killed in between, the inventory still lists the object, `verify`
    reports it as missing, and deleting it again completes the removal. Its name is not issued again.
    """
    check_reason(reason)
    ark = find_object(context, name).ark
    with context.locks.held(client, object_resource(ark), wait=wait, note="deleting"):
        found = find_object(context, ark)
        dataids = [dataid(parse_object(ark), each.number) for each in context.inventory.versions(ark)]
        chunks = {chunk_resource(each, one): Mode.EXCLUSIVE for each in found.collections for one in dataids}
        with ExitStack() as held:
            for some in _portions(chunks, context.locks.resource_limit):
                held.enter_context(context.locks.held_all(client, some, wait=wait, note="deleting"))
            storage_of(context, ark).delete(ark)
            context.inventory.remove(ark, dataids, reason=reason, by=client)
    return found


def _portions(chunks: Mapping[str, str], most: int) -> Iterator[dict[str, str]]:
    """All of them in order, in portions: a holder of a later one never waits for an earlier one."""
    names = sorted(chunks)
    return ({name: chunks[name] for name in names[start : start + most]} for start in range(0, len(names), most))
