"""Parsing of expectations in pipeline files and requests."""

# ruff: noqa: DTZ001, DTZ007 - calendars have no zone
from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from typing import Any

from headgate.core.errors import BadValue
from headgate.core.ledger.expectations.model import Expectation
from headgate.core.ledger.mappings.calendar import Unit, one
from headgate.core.ledger.mappings.parsing import check_zone
from headgate.core.ledger.mappings.stamps import FORMATS, Grain, stamp_format
from headgate.core.values.durations import DAY, HOUR, MINUTE, parse_seconds
from headgate.core.values.names import check_name
from headgate.core.values.words import check_word, suggestion

KEYS = ("every", "cron", "ids", "at", "zone", "grace", "from", "format", "id_offset")
#: The ways to define what is expected, each with the keys that do not belong to it.
KINDS: Mapping[str, tuple[str, ...]] = {"every": (), "cron": ("at",), "ids": ("format", "id_offset")}
UNITS = tuple(map(str, Unit))
MOST_IDS = 10_000
LONGEST_GRACE = LONGEST_OFFSET = 400.0 * DAY
FIRST_YEAR, LAST_YEAR = 1900, 9000
#: In messages.
EXAMPLE = datetime(2026, 1, 1)
_AT = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])", re.ASCII)
_FROM = ("%Y", "%Y-%m", "%Y-%m-%d", "%Y-%m-%dT%H", "%Y-%m-%dT%H:%M")


def parse_expectation(document: object, what: str = "expect") -> Expectation:
    """The expectation of a dataset. BadValue names the key and what is allowed."""
    if not isinstance(document, Mapping):
        raise BadValue(what, document, 'is not a table; write expect = { every = "day", at = "06:00", from = … }')
    return _WrittenExpectation(what, {key: value for key, value in document.items() if value is not None}).read()


def expectation_of(document: Mapping[str, Any]) -> Expectation | None:
    """The expectation of a dataset, by its definition; None: it has none."""
    return _read(json.dumps(document, sort_keys=True)) if document else None


@lru_cache(maxsize=1000)
def _read(text: str) -> Expectation:
    return parse_expectation(json.loads(text))


@dataclass(frozen=True, slots=True)
class _WrittenExpectation:
    """An expectation that is being parsed; every error names its key."""

    what: str
    given: Mapping[str, Any]

    def key(self, name: str) -> str:
        return f"{self.what}.{name}"

    def bad(self, name: str, why: str) -> BadValue:
        return BadValue(self.key(name), self.given.get(name), why)

    def lacks(self, why: str) -> BadValue:
        return BadValue(self.what, dict(self.given), why)

    def read(self) -> Expectation:
        """The expectation, checked."""
        self._check_keys()
        every, cron, ids = self._every(), self._cron(), self._ids()
        form = "" if ids else self._format(every)
        found = Expectation(
            self._from(form), every, cron, ids, self._at(every), self._zone(every),
            self._seconds("grace", LONGEST_GRACE), form,
            self._seconds("id_offset", LONGEST_OFFSET, least=-LONGEST_OFFSET),
        )  # fmt: skip
        if next(found.expected(), None) is None:
            raise self.bad("cron", "never matches")
        return found

    def _check_keys(self) -> None:
        unknown = next((key for key in self.given if key not in KEYS), None)
        if unknown is not None:
            raise BadValue(self.key(unknown), self.given[unknown], f"is unknown; {suggestion(unknown, KEYS)}")
        kinds = [kind for kind in KINDS if kind in self.given]
        if len(kinds) != 1:
            told = f"has {' and '.join(kinds)}" if kinds else "has neither every nor cron nor ids"
            raise self.lacks(f'{told}; write one of them, for example every = "day"')
        stray = next((key for key in KINDS[kinds[0]] if key in self.given), None)
        if stray is not None:
            raise self.bad(stray, f"does not belong to {kinds[0]}")
        if "from" not in self.given:
            raise self.lacks('has no from, the first data id that is expected, for example from = "2026-01-01"')

    # ------------------------------------------------------------ keys

    def _every(self) -> Unit | None:
        return Unit(check_word(self.key("every"), self.given["every"], UNITS)) if "every" in self.given else None

    def _cron(self) -> str:
        if "cron" not in self.given:
            return ""
        from cronsim import CronSim, CronSimError

        text = self.given["cron"]
        if not isinstance(text, str) or len(text) > 200 or len(text.split()) != 5:
            raise self.bad("cron", "is not a cron expression of five fields: minute, hour, day, month, day of the week")
        try:
            CronSim(text, datetime(2026, 1, 1))
        except CronSimError as error:
            raise self.bad("cron", f"is not a cron expression: {str(error)[:1].lower()}{str(error)[1:]}") from None
        return " ".join(text.split())

    def _ids(self) -> tuple[str, ...]:
        if "ids" not in self.given:
            return ()
        ids = self.given["ids"]
        if not isinstance(ids, list | tuple) or not ids:
            raise self.bad("ids", "is not a list of at least one data id")
        if len(ids) > MOST_IDS:
            raise BadValue(self.key("ids"), len(ids), f"are too many; at most {MOST_IDS:,} are allowed")
        names = tuple(check_name(self.key("ids"), each) for each in ids)
        if len(set(names)) < len(names):
            raise BadValue(self.key("ids"), next(each for each in names if names.count(each) > 1), "is listed twice")
        return names

    def _at(self, every: Unit | None) -> int:
        value = self.given.get("at", "00:00")
        found = _AT.fullmatch(value) if isinstance(value, str) else None
        if found is None:
            raise self.bad("at", "is not a time of day; write 06:00")
        seconds = int(found[1]) * HOUR + int(found[2]) * MINUTE
        if every is Unit.HOUR and seconds >= HOUR:
            raise self.bad("at", "is more than an hour: for hours it is the time after the hour begins, such as 00:15")
        return seconds

    def _zone(self, every: Unit | None) -> str:
        if every is Unit.HOUR and self.given.get("zone", "UTC") != "UTC":
            raise self.bad("zone", "has no effect here: hours are in UTC")
        return check_zone(self.key("zone"), self.given.get("zone", "UTC"))

    def _seconds(self, name: str, most: float, *, least: float = 0.0) -> float:
        try:
            return parse_seconds(self.given.get(name, 0.0), most, least=least)
        except ValueError as error:
            raise self.bad(name, str(error)) from None

    def _from(self, form: str) -> datetime:
        """The time that `from` names: a day or time, or a data id in the format of the others."""
        value = self.given["from"]
        if isinstance(value, date) and not isinstance(value, datetime):
            value = value.isoformat()
        if isinstance(value, datetime):
            value = "" if value.tzinfo else value.isoformat(timespec="minutes")
        found = None
        if isinstance(value, str):
            found = next(filter(None, (_read_time(value, each) for each in _FROM)), None)
            found = stamp_format(form).read(value) if found is None and form else found
        if found is None or not FIRST_YEAR <= found.year <= LAST_YEAR:
            why = f"is not a day or time of the years {FIRST_YEAR} to {LAST_YEAR} without a zone"
            example = stamp_format(form).write(EXAMPLE) if form else f"{EXAMPLE:%Y-%m-%d}"
            raise self.bad("from", f"{why}; write {example} or {EXAMPLE:%Y-%m-%dT06:00}")
        return found

    def _format(self, every: Unit | None) -> str:
        text = self.given.get("format", FORMATS[every or Unit.DAY])
        check_name(self.key("format"), text)
        try:
            form = stamp_format(text)
        except ValueError as error:
            raise self.bad("format", str(error)) from None
        if every is not None and form.grain is not Grain[every.name]:
            raise self.bad("format", f"does not name {one(every)}; for example: {FORMATS[every]}")
        if form.grain is Grain.SECOND:
            raise self.bad("format", "names seconds; the smallest unit of an expected time is a minute")
        return form.text


def _read_time(text: str, form: str) -> datetime | None:
    try:
        found = datetime.strptime(text, form)
    except ValueError:
        return None
    return found if found.strftime(form).zfill(len(text)) == text else None
