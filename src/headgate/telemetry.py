"""Log events: a fixed name plus keys, emitted once, by the service layer."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime

from headgate.core.values.redaction import SECRET_WORDS, redact, redact_all
from headgate.core.values.visible import visible, visible_json

logger = logging.getLogger("headgate")
logger.addHandler(logging.NullHandler())


def event(name: str, level: int = logging.INFO, **keys: object) -> None:
    """Log an event."""
    if logger.isEnabledFor(level):
        logger.log(level, name, extra={"keys": {key: _safe(key, value) for key, value in keys.items()}})


#: Called with the duration of a store's call in seconds.
_watching: list[Callable[[float], None]] = []


def on_store_call(told: Callable[[float], None]) -> None:
    """Report the duration of each transaction to this function from now on."""
    _watching[:] = [told]


def report_store_call(seconds: float) -> None:
    """Report the duration of a store's transaction, including all its repeats."""
    for told in _watching:
        told(seconds)


class JsonLines(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {
            "at": at,
            "level": record.levelname.lower(),
            "event": redact(record.getMessage()),
            **getattr(record, "keys", {}),
        }
        return visible_json(json.dumps(line, default=lambda value: redact(str(value)), ensure_ascii=False))


class ReadableLines(logging.Formatter):
    """One readable line per event: time of day, level, event, keys. Lines that follow are indented (tracebacks)."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created).astimezone()
        keys = dict(getattr(record, "keys", {}))
        trace = str(keys.pop("traceback", ""))
        said = " ".join(f"{key}={_readable(value)}" for key, value in keys.items())
        line = f"{at:%H:%M:%S} {record.levelname.lower():<7} {redact(record.getMessage())} {said}".rstrip()
        return "\n".join([visible(line), *(f"    {visible(each)}" for each in trace.splitlines())])


def _readable(value: object) -> str:
    text = redact(str(value))
    return text if text and not set(text) & set(' ="\n') else json.dumps(text, ensure_ascii=False)


def _safe(key: str, value: object) -> object:
    return "(hidden)" if any(word in key.lower() for word in SECRET_WORDS) else redact_all(value)
