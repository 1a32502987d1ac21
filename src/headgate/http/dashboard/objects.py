"""Stored objects: the inventory, with versions and files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import quote

from fastapi import Request, Response

from headgate.core.errors import BadValue, UnknownName
from headgate.core.inventory import StoredObject
from headgate.http.access.auth import Reader, TheGate
from headgate.http.dashboard.frame import page_router, render
from headgate.http.dashboard.ingest.acts import path_of
from headgate.http.dashboard.tables import PORTION, ROWS, Column, Table, as_csv, cut, link, order_of, ordered, paged
from headgate.http.dashboard.words import some

router = page_router()
FILTERS = ("ark", "local", "collection", "owner")
OBJECTS: Mapping[str, Column] = {
    "ark": Column("ARK", lambda found: found.ark),
    "what": Column("Title", lambda found: found.what),
    "who": Column("Creator", lambda found: found.who),
    "collections": Column("Collections", lambda found: "; ".join(found.collections)),
    "owner": Column("Owner", lambda found: found.owner),
    "version": Column("Version", lambda found: found.version, numeric=True),
    "modified": Column("Changed", lambda found: found.modified),
}
IN_FILE = {**OBJECTS, "local": Column("Local ids", lambda found: "; ".join(found.local))}
VERSIONS: Mapping[str, Column] = {
    "number": Column("Version", lambda version: version.number, numeric=True),
    "created": Column("Stored", lambda version: version.created),
    "files": Column("Files", lambda version: version.files, numeric=True),
    "size": Column("Size", lambda version: version.size, numeric=True),
    "job": Column("Ingest job", lambda version: version.job),
    "batch": Column("Batch", lambda version: version.batch),
}
FILES: Mapping[str, Column] = {
    "name": Column("File", lambda file: file.name),
    "size": Column("Size", lambda file: file.size, numeric=True),
    "digest": Column("SHA-256", lambda file: file.digest),
    "since": Column("Since version", lambda file: file.since, numeric=True),
}


@router.get("/ingest/objects")
def objects(request: Request, gate: TheGate, who: Reader) -> Response:
    """Stored objects, by ARK."""
    query = dict(request.query_params)
    chosen = {name: query[name] for name in FILTERS if query.get(name)}
    found: Sequence[StoredObject] = ()
    if gate.keeps_inventory:
        found = gate.inventory.objects(**chosen, after=query.get("after") or None, limit=ROWS + 1)
    rows, more = cut(found, lambda each: each.ark)
    order = order_of(query, more)
    table = Table("objects", "Stored objects", OBJECTS, ordered(rows, OBJECTS, order), lambda each: each.ark,
                  path="/ingest/objects", query=query, next=more,
                  json=link("/v1/objects", chosen), csv=link("/ingest/objects.csv", chosen), order=order)  # fmt: skip
    return render(request, "objects.html", who, title="Stored objects", table=table, filtered=bool(chosen),
                  kept=gate.keeps_inventory, object_path=object_path)  # fmt: skip


@router.get("/ingest/objects.csv")
def objects_file(request: Request, gate: TheGate, _who: Reader) -> Response:
    """The same list as a file, complete."""
    chosen = {name: request.query_params[name] for name in FILTERS if request.query_params.get(name)}

    def ask(after: str | None) -> list[StoredObject]:
        return list(gate.inventory.objects(**chosen, after=after, limit=PORTION))

    return as_csv("objects", IN_FILE, paged(ask, lambda each: each.ark))


@router.get("/ingest/object/{ark:path}")
def stored_object(request: Request, gate: TheGate, who: Reader, ark: str) -> Response:
    """One object: its versions, and the files of one of them."""
    versions = gate.inventory.versions(ark)
    found = next(iter(gate.inventory.objects(ark=ark)), None)
    if found is None:
        raise UnknownName("object", ark)
    number = _version(request.query_params.get("version", ""), found.version)
    files = gate.inventory.files(ark, number)
    return render(
        request, "object.html", who, title=f"Object {ark}", found=found, number=number, path_of=path_of,
        versions=Table("versions", f"Versions of {ark}", VERSIONS, versions[::-1][:ROWS], lambda each: each.number),
        files=Table("files", f"Files of version {number} of {ark}", FILES, files[:ROWS], lambda file: file.name),
        all_files=len(files), here=object_path(ark), summary=f"{ark} has {some(len(versions), 'version')}",
    )  # fmt: skip


def object_path(ark: str) -> str:
    """The page of an object."""
    return f"/ingest/object/{quote(ark)}"


def _version(text: str, newest: int) -> int:
    if text and not (text.isdecimal() and len(text) < 10):
        raise BadValue("version", text, "is not a number")
    return int(text) if text else newest
