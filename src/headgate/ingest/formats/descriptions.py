"""Descriptions of objects: ERC (`mrt-erc.txt`), Dublin Core (`mrt-dc.xml`), DataCite; untrusted when read, and written
by us.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from headgate.core.errors import BadValue, MissingExtra
from headgate.core.queue.model import Identifiers
from headgate.ingest.formats import anvl, ark
from headgate.ingest.formats.manifest import LONGEST_VALUE, MOST_LOCAL_IDS, UNASSIGNED, local_ids
from headgate.service.queue.checks import DUBLIN_CORE

#: Maximum size of an XML file, in bytes.
LARGEST_XML = 5_000_000
#: Maximum number of elements in an XML file.
MOST_ELEMENTS = 100_000

_DC = "http://purl.org/dc/elements/1.1/"
_XSI = "http://www.w3.org/2001/XMLSchema-instance"
#: Several values of these are one text, separated by ;.
_SEVERAL = ("subject", "creator", "relation", "identifier")
_NOT_KEPT = re.compile("[\0\ud800-\udfff]")
_NO_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Description:
    """Who, what and when, and all other elements of Dublin Core."""

    who: str = ""
    what: str = ""
    when: str = ""
    #: Values by the element's name, `title` for dc:title.
    dublin_core: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))

    def filled(self, other: Description) -> Description:
        """With the other's values where this one has none."""
        return other.changed(self)

    def changed(self, other: Description) -> Description:
        """With the other's values, and these where it has none."""
        fields = {**self.dublin_core}
        for name, values in other.dublin_core.items():
            there = fields.get(name, ())
            known = set(there)
            fields[name] = (*there, *(each for each in values if each not in known))
        return Description(other.who or self.who, other.what or self.what, other.when or self.when, fields)

    def updating(self, former: Description) -> Description:
        """The description after an update: its own values, and all other values as before."""
        fields = {**former.dublin_core, **self.dublin_core}
        return Description(self.who or former.who, self.what or former.what, self.when or former.when, fields)


@dataclass(frozen=True, slots=True)
class Erc:
    """The contents of a depositor's `mrt-erc.txt`."""

    description: Description
    identifiers: Identifiers


def said(configuration: Mapping[str, Any]) -> Description:
    """The description in a job's configuration, by the names of submitted metadata (`erc_who`, `dc_title`, …)."""
    texts = {name: _text(value) for name, value in configuration.items() if value is not None}
    fields = {name: _values(name, texts[f"dc_{name}"]) for name in DUBLIN_CORE if texts.get(f"dc_{name}")}
    return Description(texts.get("erc_who", ""), texts.get("erc_what", ""), texts.get("erc_when", ""), fields)


def combined(
    given: Description, dublin_core: Description | None, datacite: Description | None, erc: Description | None
) -> Description:
    """Merge all descriptions: Dublin Core fills gaps, DataCite and then ERC take precedence."""
    result = given.filled(dublin_core) if dublin_core else given
    for stronger in filter(None, (datacite, erc)):
        result = result.changed(stronger)
    return result


# ---------------------------------------------------------------- ERC


def write_erc(description: Description, primary: str, local: Sequence[str]) -> str:
    """`mrt-erc.txt`."""
    rows = [("who", description.who), ("what", description.what), ("when", description.when)]
    rows += [("where", primary), ("where", "; ".join(local))]
    return anvl.write([("erc", ""), *((label, value.strip() or UNASSIGNED) for label, value in rows)])


def read_erc(text: str) -> Erc:
    """A depositor's `mrt-erc.txt`, also in the one-line form `erc: who | what | when | where`."""
    found: dict[str, list[str]] = {"who": [], "what": [], "when": [], "where": []}
    for label, value in anvl.read(text):
        if label == "erc" and value:
            for name, part in zip(found, value.split("|"), strict=False):
                found[name].append(part.strip())
        elif label in found:
            found[label].append(value)
    who, what, when = ("; ".join(map(_assigned, found[name])) for name in ("who", "what", "when"))
    return Erc(_short(Description(who, what, when)), _places(found["where"]))


def _places(wheres: Sequence[str]) -> Identifiers:
    """The first ARK is the object's; all other names are local ids."""
    ids = [each for where in wheres for each in local_ids(where)]
    _check_count(ids)
    arks = [each for each in ids if each.lower().startswith("ark:")]
    primary = str(ark.parse_object(arks[0])) if arks else ""
    return Identifiers(primary, tuple(dict.fromkeys(each for each in ids if not arks or each != arks[0])))


def _check_count(ids: Sequence[str]) -> None:
    if len(ids) > MOST_LOCAL_IDS:
        raise BadValue("local ids", f"{len(ids):,}", f"are too many; at most {MOST_LOCAL_IDS} are allowed")


def _assigned(value: str) -> str:
    return "" if value == UNASSIGNED else value


# ---------------------------------------------------------------- XML


def write_dublin_core(fields: Mapping[str, Sequence[str]]) -> bytes:
    """`mrt-dc.xml`: an element for each value, in the order of the standard. It is written even without values."""
    etree = _etree()
    root = etree.Element("DublinCore", nsmap={"xsi": _XSI, "dc": _DC})
    for name in DUBLIN_CORE:
        for value in fields.get(name, ()):
            etree.SubElement(root, f"{{{_DC}}}{name}").text = _NO_XML.sub("\ufffd", value)
    written: bytes = etree.tostring(root, xml_declaration=True, encoding="UTF-8", pretty_print=True)
    return written


def read_dublin_core(data: bytes) -> Description:
    """Every element of Dublin Core in a depositor's XML, at any depth; title, creator and date describe it."""
    prefix = f"{{{_DC}}}"
    wanted = {f"{prefix}{name}": name for name in DUBLIN_CORE}
    fields = {name: tuple(values) for name, values in _values_in("mrt-dc.xml", data, wanted.get).items()}
    who, what, when = ("; ".join(fields.get(name, ())) for name in ("creator", "title", "date"))
    return _short(Description(who, what, when, fields))


def names_in(description: Description) -> tuple[str, ...]:
    """Dublin Core's names of the object, except names that we or similar services have assigned."""
    told = (part.strip() for each in description.dublin_core.get("identifier", ()) for part in each.split(";"))
    ids = tuple(each for each in told if each and not each.lower().startswith("ark:"))
    _check_count(ids)
    return ids


def read_datacite(data: bytes) -> Description:
    """Creators, titles and year of a depositor's DataCite XML, of any version."""
    wanted = {name: name for name in ("creatorName", "title", "publicationYear")}
    found = _values_in("mrt-datacite.xml", data, lambda tag: wanted.get(tag.rpartition("}")[2]))
    who, what, when = ("; ".join(found.get(name, ())) for name in wanted)
    return _short(Description(who, what, when))


def _values_in(what: str, data: bytes, wanted: Callable[[str], str | None]) -> dict[str, list[str]]:
    """The texts of the wanted elements, by the names in `wanted`. No tree is built."""
    etree = _etree()
    if len(data) > LARGEST_XML:
        raise BadValue(what, f"{len(data):,} bytes", f"is too large; at most {LARGEST_XML:,} are allowed")
    # Searched for before parsing; zero bytes are ignored, so that UTF-16 does not hide it.
    if b"<!DOCTYPE" in data.replace(b"\0", b""):
        raise _no_document_type(what)
    collector = _Collector(what, wanted)
    parser = etree.XMLParser(target=collector, resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise BadValue(what, data[:40], f"is not readable XML: {error}") from None
    return collector.values


class _Collector:
    """The parser's callbacks. A text belongs to the innermost wanted element, so it is kept only once."""

    def __init__(self, what: str, wanted: Callable[[str], str | None]) -> None:
        self.values: dict[str, list[str]] = {}
        self._what = what
        self._wanted = wanted
        self._elements = 0
        #: The open elements: each one's name if it is wanted, and the element that receives its text.
        self._open: list[tuple[str | None, list[str] | None]] = []

    def start(self, tag: str, _attributes: Mapping[str, str]) -> None:
        self._elements += 1
        if self._elements > MOST_ELEMENTS:
            raise BadValue(self._what, "its XML", f"has more than {MOST_ELEMENTS:,} elements")
        name = self._wanted(tag)
        self._open.append((name, [] if name else self._open[-1][1] if self._open else None))

    def data(self, text: str) -> None:
        if self._open and (parts := self._open[-1][1]) is not None:
            parts.append(text)

    def end(self, _tag: str) -> None:
        name, parts = self._open.pop()
        if name and (text := "".join(parts or ()).strip()):
            self.values.setdefault(name, []).append(text)

    def doctype(self, *_: object) -> None:
        raise _no_document_type(self._what)

    def close(self) -> None:
        """Required by the parser."""


def _no_document_type(what: str) -> BadValue:
    return BadValue(what, "<!DOCTYPE", "is not allowed: it could refer to other files")


def _etree() -> Any:
    try:
        from lxml import etree
    except ImportError as error:
        raise MissingExtra("ingest", "Reading and writing Dublin Core needs lxml") from error
    return etree


# ---------------------------------------------------------------- values


def _text(value: Any) -> str:
    return _kept("; ".join(map(str, value)) if isinstance(value, list | tuple) else str(value))


def _kept(text: str) -> str:
    """Without characters that databases and files cannot store: they would stop an object that is already stored."""
    return _NOT_KEPT.sub("\ufffd", text)


def _values(name: str, text: str) -> tuple[str, ...]:
    parts = text.split(";") if name in _SEVERAL else [text]
    return tuple(dict.fromkeys(part.strip() for part in parts if part.strip()))


def _short(description: Description) -> Description:
    who, what, when = (_kept(value)[:LONGEST_VALUE] for value in (description.who, description.what, description.when))
    return replace(description, who=who, what=what, when=when)
