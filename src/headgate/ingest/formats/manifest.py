"""Manifests: the files of an object, or the objects of a batch. All errors are found at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from headgate.core.errors import BadValue
from headgate.core.values.names import NAME_LENGTH, RESOURCE_LENGTH
from headgate.core.values.redaction import mask
from headgate.ingest.formats import ark, checkm
from headgate.ingest.formats.digests import HEX_DIGITS, check_algorithm, check_digest, spelled
from headgate.ingest.formats.file_names import check_file_name, collisions

#: Default maximum size of a manifest in bytes.
LARGEST = 50_000_000
#: Default maximum number of entries of a manifest.
MOST_ENTRIES = 100_000
#: Maximum number of local ids of one object.
MOST_LOCAL_IDS = 100
#: Maximum number of characters of a description.
LONGEST_VALUE = 3500
#: URLs of other schemes cannot be fetched here.
SCHEMES = ("http", "https", "s3", "file")
#: The value for unassigned metadata.
UNASSIGNED = "(:unas)"

_REGISTRY = "http://uc3.cdlib.org/registry"
_PREFIXES = (
    ("mrt:", "http://merritt.cdlib.org/terms#"),
    ("nfo:", "http://www.semanticdesktop.org/ontologies/2007/03/22/nfo#"),
)
_FILE = ("fileURL", "hashAlgorithm", "hashValue", "fileSize", "fileLastModified", "fileName")
_OBJECT = ("primaryIdentifier", "localIdentifier", "creator", "title", "date")


@dataclass(frozen=True, slots=True)
class ManifestLayout:
    """A kind of manifest. Its columns are fixed, whatever names a header line uses."""

    name: str
    folder: str
    columns: tuple[str, ...]
    #: The payload type of each row: file, container or object_manifest; empty: a file of one object.
    payload: str = ""
    #: Read and written only by Headgate, so that every name can be kept unchanged.
    exact: bool = False

    @property
    def profile(self) -> str:
        """The URL that identifies it in a manifest's head."""
        return f"{_REGISTRY}/{self.folder}/{self.name}"

    def is_named(self, profile: str) -> bool:
        """Whether a manifest's head means this kind."""
        return profile in (self.profile, f"{_REGISTRY}/mrt/{self.name}")


OBJECT = ManifestLayout("mrt-ingest-manifest", "ingest/manifest", (*_FILE, "mimeType"))
BATCH = ManifestLayout("mrt-batch-manifest", "ingest/manifest", (*_FILE, *_OBJECT), "object_manifest")
CONTAINERS = ManifestLayout("mrt-container-batch-manifest", "ingest/manifest", (*_FILE, *_OBJECT), "container")
SINGLE_FILES = ManifestLayout("mrt-single-file-batch-manifest", "ingest/manifest", (*_FILE, *_OBJECT), "file")
#: From ingest to storage: `mrt-manifest.txt` in the system folder.
STORAGE = ManifestLayout("mrt-add-manifest", "store/manifest", (*_FILE, "mimeType"), exact=True)
#: A container's own list: `mrt-manifest.txt` in it.
CONTENTS = ManifestLayout(
    "mrt-object-manifest",
    "store/manifest",
    ("fileName", "hashAlgorithm", "hashValue", "fileSize", "fileLastModified", "mimeType"),
)
LAYOUTS = (OBJECT, BATCH, CONTAINERS, SINGLE_FILES, STORAGE, CONTENTS)

#: The content of each column, for the reference.
COLUMNS: Mapping[str, str] = {
    "fileURL": f"Location of the bytes: {', '.join(f'`{scheme}`' for scheme in SCHEMES)}, as far as the profile's "
    "`[sources]` allow. Required.",
    "hashAlgorithm": f"The digest's algorithm, in any case, with or without a hyphen: "
    f"{', '.join(f'`{name}`' for name in HEX_DIGITS)}.",
    "hashValue": "The digest in hexadecimal digits. It is compared only if both cells are filled.",
    "fileSize": "Bytes. Compared if given, and used to estimate the space that the job needs.",
    "fileLastModified": "ISO 8601. Kept if it is valid, ignored otherwise.",
    "fileName": "The file's name in the object, or the payload's name. Required in a container's own manifest; "
    "elsewhere the default is the path of the URL.",
    "mimeType": "The media type.",
    "primaryIdentifier": f"The object's ARK. Empty or `{UNASSIGNED}`: the minter names the object.",
    "localIdentifier": f"Local ids, separated by `;`, at most {MOST_LOCAL_IDS}.",
    "creator": "`erc_who` of the object.",
    "title": "`erc_what` of the object.",
    "date": "`erc_when` of the object.",
}


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """One row: a file of an object, or an object of a batch."""

    #: Location of its bytes; empty only in a container's own list.
    url: str
    #: Its name below the object's folder, or that of the payload.
    name: str
    #: Both or none: the algorithm, and the value in lower case.
    algorithm: str = ""
    digest: str = ""
    #: Bytes; None: not said.
    size: int | None = None
    modified: datetime | None = None
    mime: str = ""
    #: The object's ARK, normalised; empty: none yet.
    primary: str = ""
    local: tuple[str, ...] = ()
    creator: str = ""
    title: str = ""
    date: str = ""
    #: Its position in the manifest, which is not compared.
    line: int = 0


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest without errors."""

    layout: ManifestLayout
    entries: tuple[ManifestEntry, ...]


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file as it was found on disk."""

    size: int
    #: Its digests by algorithm.
    digests: Mapping[str, str]


def parse(
    data: bytes, expected: Sequence[ManifestLayout], *, limit: int = LARGEST, most: int = MOST_ENTRIES
) -> Manifest:
    """A manifest of one of the expected kinds (without a head: of the first). BadManifest with every error.

    At most `most` entries are kept in memory, however long the manifest is.
    """
    problems = checkm.Problems()
    sheet = checkm.Sheet(data, problems, limit, most)
    entries: list[ManifestEntry] = []
    layout: ManifestLayout | None = None
    for row in sheet.rows():
        if sheet.count == 1:
            layout = _layout(sheet.profile, expected)
        if layout is not None:
            entries.append(_entry(row, layout, problems))
    layout = layout or _layout(sheet.profile, expected)
    if layout is None:
        wanted = " or ".join(each.profile for each in expected)
        problems.add(0, f"its profile is {(sheet.profile or '')[:200] or 'empty'}; here it must be {wanted}")
        # The meaning of the columns is unknown, so nothing more can be checked.
        raise problems.error()
    if not layout.payload:
        _check_collisions(entries, problems)
    problems.check()
    return Manifest(layout, tuple(entries))


def write(layout: ManifestLayout, entries: Iterable[ManifestEntry]) -> bytes:
    """A manifest of that kind. BadValue for values that could not be read back."""
    columns = [("nfo:" if column in _FILE else "mrt:") + column.replace("URL", "Url") for column in layout.columns]
    return checkm.write(layout.profile, _PREFIXES, columns, (_line(layout, entry) for entry in entries))


def differences(manifest: Manifest, found: Mapping[str, FoundFile]) -> list[tuple[int, str]]:
    """Differences between a container and its own list, in both directions; line 0 for files that it does not name."""
    listed = {entry.name for entry in manifest.entries}
    missing = [(0, f"{name!r} is in the container, but not in the manifest") for name in found if name not in listed]
    return [*filter(None, (_difference(entry, found.get(entry.name)) for entry in manifest.entries)), *missing]


def check_url(value: str) -> str:
    """A URL that can be fetched; the profile decides whether it is allowed."""
    text = value.strip(" \t")
    if len(text) > RESOURCE_LENGTH:
        raise BadValue(
            "URL", text[:60] + "…", (f"has {len(text):,} characters; at most {RESOURCE_LENGTH:,} are allowed")
        )
    why = _why_no_url(text)
    if why:
        raise BadValue("URL", mask(text), why)
    return text


# ---------------------------------------------------------------- reading

#: From the cells of a row, its layout and its URL to the values of its entry.
_Reader = Callable[[Mapping[str, str], ManifestLayout, str], dict[str, Any]]


def _layout(profile: str | None, expected: Sequence[ManifestLayout]) -> ManifestLayout | None:
    """The kind of manifest that its head names; None: one that is not expected here."""
    if profile is None:
        return expected[0]
    return next((layout for layout in expected if layout.is_named(profile)), None)


def _entry(row: checkm.CheckmRow, layout: ManifestLayout, problems: checkm.Problems) -> ManifestEntry:
    cells = dict(zip(layout.columns, row.cells, strict=False))
    for column, cell in cells.items():
        if column != "fileURL":
            cells[column] = checkm.decoded(cell, exact=layout.exact)
    values: dict[str, Any] = {"url": "", "name": "", "line": row.line}
    if len(row.cells) == 1 and len(row.cells[0].split()) > 1:
        problems.add(row.line, "it has no bar; columns are separated by ' | '")
        return ManifestEntry(**values)
    for read in _READERS:
        try:
            values |= read(cells, layout, values["url"])
        except BadValue as error:
            problems.add(row.line, str(error))
    return ManifestEntry(**values)


def _read_url(cells: Mapping[str, str], layout: ManifestLayout, _url: str) -> dict[str, Any]:
    return {"url": check_url(cells.get("fileURL", ""))} if "fileURL" in layout.columns else {}


def _read_name(cells: Mapping[str, str], layout: ManifestLayout, url: str) -> dict[str, Any]:
    name = cells.get("fileName", "")
    if name or "fileURL" not in layout.columns:
        return {"name": check_file_name(name)}
    if not url:  # It was reported already, and has no name.
        return {}
    path = urlsplit(url).path
    name = path.replace("/", "") if layout.payload else path.removeprefix("/")
    return {"name": check_file_name(name, "no file name is given, and the URL's")}


def _read_digest(cells: Mapping[str, str], _layout: ManifestLayout, _url: str) -> dict[str, Any]:
    algorithm, value = cells.get("hashAlgorithm", "").strip(), cells.get("hashValue", "").strip()
    if not algorithm or not value:
        return {}
    algorithm = check_algorithm(algorithm)
    return {"algorithm": algorithm, "digest": check_digest(algorithm, value)}


def _size(text: str) -> int | None:
    text = text.strip()
    if not text:
        return None
    if re.fullmatch("[0-9]{1,18}", text):
        return int(text)
    raise BadValue("size", text, "is not a number of bytes")


def _moment(text: str) -> datetime | None:
    """An unreadable time is ignored, as in Merritt."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _primary(text: str) -> str:
    text = text.strip()
    return "" if text in ("", UNASSIGNED) else str(ark.parse_object(text))


def local_ids(text: str) -> tuple[str, ...]:
    """Local ids in their notation: separated by ;, each counted once."""
    ids = dict.fromkeys(each.strip() for each in text.split(";"))
    if len(ids) > MOST_LOCAL_IDS:
        raise BadValue("local ids", text, f"are {len(ids):,}; at most {MOST_LOCAL_IDS} are allowed")
    return tuple(_check_local(each) for each in ids if each not in ("", UNASSIGNED))


def _check_local(text: str) -> str:
    if len(text) > NAME_LENGTH or not text.isprintable():
        raise BadValue("local id", text, f"has more than {NAME_LENGTH} characters or an unprintable character")
    return text


def _short(text: str) -> str:
    return text[:LONGEST_VALUE]


_REST: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "fileSize": ("size", _size),
    "fileLastModified": ("modified", _moment),
    "mimeType": ("mime", str.strip),
    "primaryIdentifier": ("primary", _primary),
    "localIdentifier": ("local", local_ids),
    "creator": ("creator", _short),
    "title": ("title", _short),
    "date": ("date", _short),
}


def _reader(column: str) -> _Reader:
    field, read = _REST[column]
    return lambda cells, _layout, _url: {field: read(cells.get(column, ""))}


#: Each one separately, so that every error of a row is reported.
_READERS: tuple[_Reader, ...] = (_read_url, _read_name, _read_digest, *map(_reader, _REST))


def _why_no_url(text: str) -> str:
    if not text:
        return "is missing"
    if " " in text or not text.isprintable():
        return "has a blank or a control character; write it as %20"
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError as error:
        return f"cannot be read: {error}"
    if parts.scheme not in SCHEMES:
        return f"does not start with one of {', '.join(f'{scheme}://' for scheme in SCHEMES)}"
    if parts.scheme == "file":
        local = parts.netloc in ("", "localhost") and parts.path.startswith("/")
        return "" if local else "does not have the form file:///path"
    return "" if parts.hostname else "has no host"


def _check_collisions(entries: Sequence[ManifestEntry], problems: checkm.Problems) -> None:
    named = [entry for entry in entries if entry.name]
    for collision in collisions(entry.name for entry in named):
        earlier = named[collision.earlier].line
        problems.add(named[collision.index].line, f"{collision.why} (line {earlier})")


def _difference(entry: ManifestEntry, found: FoundFile | None) -> tuple[int, str] | None:
    if found is None:
        return entry.line, f"{entry.name!r} is missing"
    if entry.size is not None and entry.size != found.size:
        return entry.line, f"{entry.name!r} has {found.size:,} bytes; expected {entry.size:,}"
    if entry.algorithm and entry.digest != found.digests.get(entry.algorithm):
        return entry.line, f"{entry.name!r}: checksum mismatch: its {entry.algorithm} differs from the manifest"
    return None


# ---------------------------------------------------------------- writing


def _line(layout: ManifestLayout, entry: ManifestEntry) -> str:
    texts = {
        "hashAlgorithm": spelled(entry.algorithm),
        "hashValue": entry.digest,
        "fileSize": "" if entry.size is None else str(entry.size),
        "fileLastModified": entry.modified.isoformat() if entry.modified else "",
        "fileName": check_file_name(entry.name),
        "mimeType": entry.mime,
        "primaryIdentifier": entry.primary,
        "localIdentifier": ";".join(map(_written_local, entry.local)),
        "creator": entry.creator,
        "title": entry.title,
        "date": entry.date,
    }
    cells = [
        _written_url(entry.url) if column == "fileURL" else checkm.encoded(texts[column], exact=layout.exact)
        for column in layout.columns
    ]
    line = checkm.joined(cells)
    if line.startswith("#"):
        raise BadValue("file name", entry.name, "starts with #, and would be read as a comment")
    return line


def _written_url(url: str) -> str:
    if "|" in url:
        raise BadValue("URL", mask(url), "has a bar; write it as %7C")
    return check_url(url)


def _written_local(local: str) -> str:
    if local_ids(local) != (local,):
        raise BadValue("local id", local, "contains a ; or has blanks around it, or means that there is none")
    return local
