"""The values of a profile: their types, and one reader for all tables, which finds every error."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, field, fields, is_dataclass
from typing import Any, cast
from urllib.parse import urlsplit

from headgate.core.errors import BadValue
from headgate.core.values.names import check_name, check_resource
from headgate.core.values.redaction import mask
from headgate.core.values.sizes import parse_size
from headgate.core.values.words import check_word, suggestion
from headgate.ingest.formats import ark
from headgate.service.checks import check_span

Check = Callable[[Any], Any]
#: A required value.
REQUIRED = None

_ATOM = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_MAIL = re.compile(rf"{_ATOM}(?:\.{_ATOM})*@{_LABEL}(?:\.{_LABEL})*")
_SECRET = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*|file:/[^\0]+")


def known(check: Check, default: Any, meaning: str) -> Any:
    """A key of a table: the type of its value, its default (None: it is required), and a description."""
    said = {"check": check, "meaning": meaning}
    return field(metadata=said) if default is REQUIRED else field(default=default, metadata=said)


def optional(check: Check, meaning: str) -> Any:
    """A key without a value: None if it is left out."""
    said = {"check": lambda value: None if value is None else check(value), "meaning": meaning}
    return field(default=None, metadata=said)


def table(kind: type, meaning: str) -> Any:
    """An optional table within a table."""
    return field(default_factory=kind, metadata={"check": kind, "meaning": meaning})


def read_table(
    kind: type, content: Mapping[str, Any], problems: list[str], where: str = "", *, strict: bool = True
) -> dict[str, Any]:
    """The values of a table, as fields of the class. Every error is added to `problems`, with the key's full name."""
    keys = {each.name: each for each in fields(kind)}
    if strict:
        unknown = [name for name in content if name not in keys]
        problems += [f"{where}{name} is unknown; {suggestion(name, list(keys))}" for name in unknown]
    found = {}
    for name, key in keys.items():
        if name in content:
            found[name] = _read_value(key, content[name], problems, where, strict=strict)
        elif key.default is MISSING and key.default_factory is MISSING:
            problems.append(f"{where}{name} is missing. {key.metadata['meaning']}")
    return found


def _read_value(key: Field[Any], value: Any, problems: list[str], where: str, *, strict: bool) -> Any:
    check = key.metadata["check"]
    if not is_dataclass(check):
        try:
            return check(value)
        except BadValue as error:
            problems.append(f"{where}{key.name} = {error.value!r} {error.why}")
            return None
    if not isinstance(value, Mapping):
        problems.append(f"{where}{key.name} must be a value, not a table: [{where}{key.name}]")
        return None
    before = len(problems)
    inner = read_table(cast("type", check), value, problems, f"{where}{key.name}.", strict=strict)
    return cast("type", check)(**inner) if len(problems) == before else None


# ---------------------------------------------------------------- single values


def text(value: object) -> str:
    """One line of text, or none."""
    return "" if value == "" else check_resource(value)


def name(value: object) -> str:
    """A name without slashes."""
    return check_name("name", value)


def owner(value: object) -> str:
    """A name, or an ARK in its normal form."""
    given = check_resource(value)
    return str(ark.parse_object(given)) if given.lower().startswith("ark:") else check_name("owner", given)


def flag(value: object) -> bool:
    """true or false."""
    if not isinstance(value, bool):
        raise BadValue("flag", value, "is neither true nor false")
    return value


def seconds(value: object) -> float:
    """A positive time."""
    found = check_span("time", value)
    if found == 0:
        raise BadValue("time", value, "must be more than 0")
    return found


def count(least: int, most: int = 2**63 - 1) -> Check:
    """A whole number in a range."""

    def check(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            shown = f"of {least} or more" if most == 2**63 - 1 else f"from {least} to {most}"
            raise BadValue("number", value, f"is not a whole number {shown}")
        return value

    return check


def size(value: object) -> int:
    """A size in bytes, 1 or more; as a number, or as text with a unit."""
    if isinstance(value, str):
        try:
            value = parse_size(value)
        except ValueError as error:
            raise BadValue("size", value, str(error)) from None
    found: int = count(1)(value)
    return found


def choice(*words: str) -> Check:
    """One of several words."""

    return lambda value: check_word("word", value, words)


def shoulder(value: object) -> str:
    """The prefix of a minter's names, in normal form."""
    return str(ark.check_shoulder(value))


def web_address(value: object) -> str:
    """An http or https address without a password in it, or none."""
    address = text(value)
    if address and not _is_web_address(address):
        raise BadValue("address", mask(address), "is not an http:// or https:// address without user and password")
    return address


def _is_web_address(address: str) -> bool:
    try:
        parts = urlsplit(address)
        return (
            parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc and parts.port != 0
        )
    except ValueError:
        return False


def secret_reference(value: object) -> str:
    """A reference to a secret, or none. A profile must not contain the secret itself."""
    if value == "" or (isinstance(value, str) and _SECRET.fullmatch(value)):
        return str(value)
    # The value is not shown, because it may be the secret itself.
    raise BadValue("secret", "…", "is not a reference to a secret; write env:NAME or file:/path")


# ---------------------------------------------------------------- lists


def each(check: Check) -> Check:
    """A list of such values, each once."""

    def check_all(value: object) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise BadValue("list", value, "is not a list; write [ … ]")
        return tuple(dict.fromkeys(map(check, value)))

    return check_all


def mail_address(value: object) -> str:
    """A plain mail address: ASCII, no name beside it."""
    if not isinstance(value, str) or not _MAIL.fullmatch(value):
        raise BadValue("mail address", value, "is not a mail address")
    return value


def _folder(value: object) -> str:
    path = check_resource(value)
    if not path.startswith("/") or ".." in path.split("/"):
        raise BadValue("folder", value, "is not an absolute path of a folder")
    return path


def _ark(value: object) -> str:
    return str(ark.parse_object(value))


texts = each(check_resource)
ports = each(count(1, 65_535))
folders = each(_folder)
mail_addresses = each(mail_address)
arks = each(_ark)


def choices(*words: str) -> Check:
    """Some of these words."""
    return each(choice(*words))
