"""Parsing of mappings in pipeline files and requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any

from headgate.core.errors import BadValue
from headgate.core.ledger.mappings.calendar import PARTS, Unit, number_at, numbers_within, one, zone_named
from headgate.core.ledger.mappings.model import (
    LATE_DELAY,
    NEED_ALL,
    NEED_ANY,
    InputMap,
    MapKind,
    OnLate,
    has_hours,
)
from headgate.core.ledger.mappings.patterns import NamePattern, name_pattern
from headgate.core.ledger.mappings.stamps import FORMATS, Grain, stamp_format
from headgate.core.values.durations import DAY, parse_seconds
from headgate.core.values.names import check_name
from headgate.core.values.plurals import plural
from headgate.core.values.words import check_word, nearest, suggestion

#: Maximum number of data ids that a definition lets one data id of a job read.
MOST_IDS = 10_000
#: The longest `late_delay`, in seconds.
LONGEST_LATE_DELAY = 30.0 * DAY
KEYS = tuple(each.name for each in fields(InputMap))
#: Keys that may appear beside any kind but `same`.
COMMON = ("kind", "need", "on_late", "late_delay")
KEYS_OF: Mapping[MapKind, tuple[str, ...]] = {
    MapKind.SAME: ("kind",),
    MapKind.PERIOD: (*COMMON, "period", "unit", "format", "job_format", "zone"),
    MapKind.WINDOW: (*COMMON, "before", "after", "unit", "format"),
    MapKind.ALL: COMMON,
    MapKind.LIST: (*COMMON, "ids"),
    MapKind.SPLIT: (*COMMON, "format", "job_format"),
}
UNITS = tuple(map(str, Unit))


def parse_maps(documents: object, inputs: Sequence[str]) -> dict[str, InputMap]:
    """The mappings of a job's inputs, without those that are `same`. BadValue names the key and what is allowed."""
    if documents is None:
        return {}
    if not isinstance(documents, Mapping):
        raise BadValue("maps", documents, "is not a table; write a table for each input that has a mapping")
    for name in documents:
        if name not in inputs:
            hint = suggestion(str(name), inputs) if inputs else "the job has no inputs"
            raise BadValue("maps", name, f"is not an input of the job; {hint}")
    found = {name: parse_map(name, document) for name, document in documents.items()}
    return {name: each for name, each in found.items() if each.kind is not MapKind.SAME}


def parse_map(dataset: str, document: object) -> InputMap:
    """The mapping of one input."""
    if isinstance(document, InputMap):
        document = document.to_document()
    if not isinstance(document, Mapping):
        raise BadValue(
            f"maps.{dataset}", document, f"is not a table; write kind = {str(MapKind.PERIOD)!r}, for example"
        )
    given = {key: value for key, value in document.items() if value is not None}
    _Written(dataset, given).check_keys()
    return _Written(dataset, given).read()


@dataclass(frozen=True, slots=True)
class _Written:
    """A mapping that is being parsed; every error names its key."""

    dataset: str
    given: Mapping[str, Any]

    def key(self, name: str) -> str:
        return f"maps.{self.dataset}.{name}"

    def bad(self, name: str, why: str) -> BadValue:
        return BadValue(self.key(name), self.given.get(name), why)

    @property
    def kind(self) -> MapKind:
        kinds = tuple(map(str, MapKind))
        if "kind" not in self.given:
            raise BadValue(f"maps.{self.dataset}", dict(self.given), f"has no kind; kinds: {', '.join(kinds)}")
        return MapKind(check_word(self.key("kind"), self.given["kind"], kinds))

    def check_keys(self) -> None:
        """Refuse unknown keys and those that belong to another kind."""
        unknown = next((key for key in self.given if key not in KEYS), None)
        if unknown is not None:
            raise BadValue(self.key(unknown), self.given[unknown], f"is unknown; {suggestion(unknown, KEYS)}")
        allowed = KEYS_OF[self.kind]
        for key, value in self.given.items():
            if key not in allowed and not _is_usual(key, value):
                others = f"; its keys: {', '.join(allowed[1:])}" if len(allowed) > 1 else ""
                raise BadValue(self.key(key), value, f"does not belong to kind {str(self.kind)!r}{others}")

    def read(self) -> InputMap:
        """The mapping, checked."""
        kind = self.kind
        if kind is MapKind.SAME:
            return InputMap()
        on_late = check_word(self.key("on_late"), self.given.get("on_late", str(OnLate.NOTE)), tuple(map(str, OnLate)))
        found = InputMap(kind, on_late=OnLate(on_late), late_delay=self._late_delay())
        readers = {
            MapKind.PERIOD: self._period, MapKind.WINDOW: self._window, MapKind.LIST: self._list,
            MapKind.SPLIT: self._split,
        }  # fmt: skip
        whole = readers[kind](found) if kind in readers else found
        return replace(whole, need=self._need(whole))

    # ------------------------------------------------------------ kinds

    def _period(self, found: InputMap) -> InputMap:
        if "period" not in self.given:
            raise BadValue(f"maps.{self.dataset}", dict(self.given), f"has no period; units: {', '.join(UNITS)}")
        period = Unit(check_word(self.key("period"), self.given["period"], UNITS))
        unit = self._unit()
        if unit is not None and unit not in PARTS[period]:
            allowed = ", ".join(PARTS[period])
            raise self.bad("unit", f"is not a part of {one(period)}; {one(period)} consists of: {allowed}")
        if unit is None and "format" not in self.given:
            told = (
                f"has neither unit nor format; write unit = {str(PARTS[period][-2:][0])!r} if the calendar says which"
            )
            raise BadValue(f"maps.{self.dataset}", dict(self.given), f"{told} data ids there are, else their format")
        form = self._stamp("format", unit)
        grain = stamp_format(form).grain
        if unit is None and _unit_of(grain) not in PARTS[period]:
            raise self.bad("format", f"names {_a(grain)}, which is not a part of {one(period)}")
        shown = self._stamp("job_format", period)
        return replace(found, period=period, unit=unit, format=form, job_format=shown, zone=self._zone(period, form))

    def _window(self, found: InputMap) -> InputMap:
        before, after = (self._count(name) for name in ("before", "after"))
        if before + after == 0:
            raise BadValue(f"maps.{self.dataset}", dict(self.given), "has neither before nor after; write before = 1")
        if before + after >= MOST_IDS:
            raise self.bad("before" if before >= after else "after", f"is too much; at most {MOST_IDS:,} are read")
        unit = self._unit()
        if unit is None and "format" in self.given:
            raise self.bad("format", f"needs a unit; units: {', '.join(Unit)}")
        form = None if unit is None else self._stamp("format", unit)
        return replace(found, before=before, after=after, unit=unit, format=form)

    def _list(self, found: InputMap) -> InputMap:
        ids = self.given.get("ids")
        if not isinstance(ids, list | tuple) or not ids:
            raise self.bad("ids", "is not a list of at least one data id")
        if len(ids) > MOST_IDS:
            raise BadValue(self.key("ids"), len(ids), f"are too many; at most {MOST_IDS:,} are read")
        names = tuple(check_name(self.key("ids"), each) for each in ids)
        twice = next((each for each in names if names.count(each) > 1), None) if len(set(names)) < len(names) else None
        if twice is not None:
            raise BadValue(self.key("ids"), twice, "is listed twice")
        return replace(found, ids=names)

    def _split(self, found: InputMap) -> InputMap:
        form, shown = (self._pattern(name) for name in ("format", "job_format"))
        stray = next((each for each in shown.fields if each not in form.fields), None)
        if stray is not None:
            hint = suggestion(stray, form.fields)
            raise self.bad("job_format", f"has the field {{{stray}}}, which format does not have; {hint}")
        return replace(found, format=form.text, job_format=shown.text)

    # ------------------------------------------------------------ keys

    def _unit(self) -> Unit | None:
        if "unit" not in self.given:
            return None
        return Unit(check_word(self.key("unit"), self.given["unit"], UNITS))

    def _stamp(self, name: str, unit: Unit | None) -> str:
        """A format of times; the default is that of the unit."""
        text = self.given.get(name, FORMATS[unit] if unit else None)
        check_name(self.key(name), text)
        try:
            form = stamp_format(text)
        except ValueError as error:
            raise self.bad(name, str(error)) from None
        if unit is not None and form.grain.name.lower() != unit:
            raise self.bad(name, f"names {_a(form.grain)}, not {one(unit)}; for example: {FORMATS[unit]}")
        return form.text

    def _pattern(self, name: str) -> NamePattern:
        if name not in self.given:
            raise BadValue(f"maps.{self.dataset}", dict(self.given), f"has no {name}; for example {{sample}}")
        check_name(self.key(name), self.given[name])
        try:
            return name_pattern(self.given[name])
        except ValueError as error:
            raise self.bad(name, str(error)) from None

    def _zone(self, period: Unit, form: str) -> str | None:
        zoned = has_hours(form) and period is not Unit.HOUR
        if "zone" not in self.given:
            return "UTC" if zoned else None
        if not zoned:
            raise self.bad("zone", "has no effect here: only hours, which are in UTC, belong to the day of a zone")
        return check_zone(self.key("zone"), self.given["zone"])

    def _count(self, name: str) -> int:
        value = self.given.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < MOST_IDS:
            raise self.bad(name, f"is not a whole number from 0 to {MOST_IDS - 1:,}")
        return value

    def _late_delay(self) -> float:
        try:
            return parse_seconds(self.given.get("late_delay", LATE_DELAY), LONGEST_LATE_DELAY)
        except ValueError as error:
            raise self.bad("late_delay", str(error)) from None

    def _need(self, found: InputMap) -> str | int:
        need = self.given.get("need", NEED_ALL)
        if need in (NEED_ALL, NEED_ANY):
            return str(need)
        if isinstance(need, bool) or not isinstance(need, int) or not 1 <= need <= MOST_IDS:
            hint = nearest(need, (NEED_ALL, NEED_ANY)) if isinstance(need, str) else ""
            meant = f"; did you mean {hint!r}?" if hint else ""
            raise self.bad("need", f"is neither {NEED_ALL} nor {NEED_ANY} nor a number from 1 to {MOST_IDS:,}{meant}")
        most = most_sources(found)
        if most is not None and need > most:
            raise self.bad("need", f"is more than there can be: {plural(most, 'data id')}")
        return need


def check_zone(what: str, value: object) -> str:
    """A time zone by its IANA name: Europe/Berlin, UTC."""
    if not isinstance(value, str):
        raise BadValue(what, value, f"is {type(value).__name__}, not the name of a time zone")
    try:
        zone_named(value)
    except (LookupError, ValueError, OSError):
        from zoneinfo import available_timezones  # The folder of the time zone database, read only to explain an error.

        known = sorted(available_timezones())
        if not known:
            raise BadValue(what, value, "is not known, nor is any other zone: install the package tzdata") from None
        near = nearest(value, known)
        hint = f"did you mean {near!r}?" if near else "examples: Europe/Berlin, America/New_York, UTC"
        raise BadValue(what, value, f"is not a time zone; {hint}") from None
    return value


def most_sources(found: InputMap) -> int | None:
    """The maximum number of upstream ids of one data id; None: it is not known."""
    if found.ids is not None:
        return len(found.ids)
    if found.kind is MapKind.WINDOW:
        return (found.before or 0) + (found.after or 0) + 1
    if found.unit is None or found.period is None:
        return None
    # A leap year that begins on a Monday has the most of every unit; clocks that are set back add an hour.
    begin = number_at(found.period, datetime(2024, 7, 1))  # noqa: DTZ001 - calendars have no zone
    whole = len(numbers_within(found.unit, found.period, begin))
    return whole + (found.unit is Unit.HOUR and found.period is not Unit.HOUR)


def _is_usual(key: str, value: object) -> bool:
    """Whether a value equals the default: a mapping in the form in which it was returned may be defined again."""
    return key in COMMON and value == {"need": NEED_ALL, "on_late": str(OnLate.NOTE), "late_delay": LATE_DELAY}.get(key)


def _a(grain: Grain) -> str:
    return f"{'an' if grain is Grain.HOUR else 'a'} {grain.name.lower()}"


def _unit_of(grain: Grain) -> Unit:
    return Unit.HOUR if grain <= Grain.HOUR else Unit(grain.name.lower())
