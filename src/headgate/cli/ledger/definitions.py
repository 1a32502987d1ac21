"""`headgate define`: datasets and jobs from a pipeline file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headgate.cli.access.holders import confirm_holders, holder_options
from headgate.cli.terminal.console import Console
from headgate.cli.terminal.options import common
from headgate.core.errors import BadValue
from headgate.core.ledger import pipeline_keys
from headgate.core.ledger.commands import parse_command
from headgate.core.ledger.expectations.parsing import parse_expectation
from headgate.core.ledger.mappings.parsing import parse_maps
from headgate.core.ledger.pipeline import parse_recur
from headgate.core.values.documents import read_toml
from headgate.core.values.words import suggestion

if TYPE_CHECKING:
    from headgate.core.ledger.model import Defined
    from headgate.core.ledger.watches.model import FileWatch
    from headgate.service.ledger.use_cases import Ledger


@click.command("define")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="PIPELINE.toml")
@holder_options
@common
def define(console: Console, file: Path, holders: Sequence[str], *, yes: bool) -> None:
    """Define the datasets and jobs of a pipeline file, and print what changed.

    Defining the same file again changes nothing. Datasets and jobs that the file does not name are left alone.
    If any part of the file is refused, nothing is defined.

    The file contains no secrets, only where they are: env:NAME is a variable, file:PATH a file that only its owner can
    read. Encrypting them needs the key ring (HEADGATE_MASTER_KEY_FILE), or the key of the one job that uses them
    (HEADGATE_JOB_KEY). Jobs that could not read a secret before are listed and must be confirmed: at the terminal, with
    --new-holder for each, or with --yes for all. `secret_jobs` of a dataset lists the jobs that may read its secrets.

    \b
    Example of a file:
      [dataset.orders_raw]
      uri = "postgresql://warehouse/raw"
      [dataset.orders_raw.secrets]
      password = "env:RAW_PASSWORD"
      [dataset.orders_clean]
      [job.clean]
      inputs = ["orders_raw"]
      outputs = ["orders_clean"]
      max_attempts = 3
    """
    pipeline = read_pipeline(file)
    with console.gate() as gate:
        confirmed = confirm_holders(console, planned_holders(gate.ledger, pipeline), holders, yes=yes)
        defined = define_all(gate.ledger, pipeline, confirmed)
    changes, warnings = list(defined.changes), list(defined.warnings)
    console.answer(
        {"changes": changes, "warnings": warnings},
        lambda: "\n".join(changes) or ("nothing changed: everything is defined already"),
    )
    console.say_notes(warnings)


def planned_holders(ledger: Ledger, pipeline: Mapping[str, Any]) -> list[str]:
    """The jobs that a pipeline would make holders of secrets, as DATASET/JOB."""
    datasets: Mapping[str, Mapping[str, Any]] = pipeline.get("dataset", {})
    uses = {name: [*body.get("inputs", ()), *_made(body)] for name, body in pipeline.get("job", {}).items()}
    named = [name for name, body in datasets.items() if body.get("secrets")]
    return ledger.secrets.new_holders(uses, named, {name: body.get("secret_jobs") for name, body in datasets.items()})


def _made(body: Mapping[str, Any]) -> list[str]:
    """The datasets that a job of the file makes."""
    return [*body.get("outputs", ()), *body.get("fan_out", ())]


def define_all(ledger: Ledger, pipeline: Mapping[str, Any], holders: Iterable[str] = ()) -> Defined:
    """Define everything in the file, or nothing."""
    datasets: Mapping[str, Mapping[str, Any]] = pipeline.get("dataset", {})
    plain = {name: {"secrets": _secrets(name, body["secrets"])} for name, body in datasets.items() if "secrets" in body}
    whole = {
        name: {**_defined(body, pipeline_keys.IN_THE_FILE), **plain.get(name, {})} for name, body in datasets.items()
    }
    jobs = {
        name: _in_seconds(_defined(body, pipeline_keys.JOB_IN_THE_FILE))
        for name, body in pipeline.get("job", {}).items()
    }
    return ledger.define(whole, jobs, holders=holders)


def _in_seconds(body: Mapping[str, Any]) -> dict[str, Any]:
    """A job's definition for programs: with `recur` in seconds."""
    return {**body, **({"recur": parse_recur(body["recur"])} if "recur" in body else {})}


def _defined(body: Mapping[str, Any], in_the_file: Iterable[pipeline_keys.Key]) -> dict[str, Any]:
    """The stored part of a dataset's or job's definition: watches and commands stay in the file."""
    left_out = {key.name for key in in_the_file}
    return {key: value for key, value in body.items() if key not in left_out}


def watches_in(file: Path, pipeline: Mapping[str, Any]) -> list[FileWatch]:
    """The checked watches of a pipeline file; a folder is relative to the file's."""
    from headgate.core.ledger.watches.parsing import parse_watch

    found = []
    for name, body in pipeline.get("dataset", {}).items():
        if "watch" in body:
            maker = next((job for job, each in pipeline.get("job", {}).items() if name in _made(each)), None)
            if maker is not None:
                why = f"has a watch, but job {maker!r} makes it; a dataset has one producer"
                raise BadValue("dataset", name, why)
            watch = parse_watch(name, body["watch"])
            folder = (
                watch.source if watch.is_bucket else str((file.parent / Path(watch.source).expanduser()).absolute())
            )
            found.append(replace(watch, source=folder))
    return found


def _secrets(dataset: str, places: object) -> dict[str, str]:
    """Read the secrets of a dataset from the places that the file names."""
    if not isinstance(places, Mapping):
        raise BadValue("secrets", dataset, f"are not a table; write [dataset.{dataset}.secrets]")
    return {name: _secret(dataset, name, place) for name, place in places.items()}


def _secret(dataset: str, name: str, place: object) -> str:
    from headgate.service.secrets.keyring import read_private

    kind, _, where = str(place).partition(":")
    if kind == "file":
        return read_private(f"secret {name} of {dataset}", where).removesuffix("\n")
    if kind != "env":
        raise BadValue("secret", name, f"of {dataset} is written in the file itself; write env:NAME or file:PATH")
    if not os.environ.get(where):
        raise BadValue("secret", name, f"of {dataset} comes from the variable {where}, which is not set")
    return os.environ[where]


def read_pipeline(file: Path) -> Mapping[str, Any]:
    """Return the file's content; BadValue with the line and the nearest known name if a key is unknown."""
    return parse_pipeline(file, file.read_bytes())


def parse_pipeline(file: Path, data: bytes) -> Mapping[str, Any]:
    """The same for content that was already read."""
    try:
        content = read_toml(data)
    except ValueError as error:
        raise BadValue("pipeline file", file.name, f"cannot be read: {error}") from error
    text = data.decode()
    _check_names(file, text, content, ("dataset", "job"))
    for noun, keys in (
        ("dataset", (*pipeline_keys.DATASET, *pipeline_keys.IN_THE_FILE)),
        ("job", (*pipeline_keys.JOB, *pipeline_keys.JOB_IN_THE_FILE)),
    ):
        known = tuple(key.name for key in keys)
        for name, body in _table(file, text, content, noun).items():
            _check_names(file, text, _table(file, text, content[noun], name), known, f"of {noun} {name} ")
            _check_lists(file, text, name, body)
            if "maps" in body:
                _check_maps(file, text, name, body)
            if "expect" in body:
                _check_expect(file, text, name, body["expect"])
            if noun == "job":
                _check_command(file, text, name, body)
            elif "watch" in body:
                _check_watch(file, text, name, body["watch"])
    watches_in(file, content)
    return content


def _check_maps(file: Path, text: str, job: str, body: Mapping[str, Any]) -> None:
    """Refuse a mapping of this file, naming the line of its first mistake."""
    maps = body["maps"]
    if not isinstance(maps, Mapping):
        why = f"of job {job} in {file.name}, line {_line(text, 'maps')}, is not a table; write [job.{job}.maps.INPUT]"
        raise BadValue("maps", maps, why)
    for name in maps:
        try:
            parse_maps({name: maps[name]}, body.get("inputs", ()))
        except BadValue as error:
            key = error.what.rpartition(".")[2]
            line = _line_within(text, ("job", job, "maps", name), key if key not in (name, "maps") else name)
            why = f"of job {job} in {file.name}, line {line}, {error.why}"
            raise BadValue(error.what, error.value, why) from error


def _check_expect(file: Path, text: str, dataset: str, document: object) -> None:
    """Refuse an expectation of this file, naming the line of its first mistake."""
    try:
        parse_expectation(document)
    except BadValue as error:
        key = error.what.rpartition(".")[2]
        line = _line_within(text, ("dataset", dataset, "expect"), key)
        why = f"of dataset {dataset} in {file.name}, line {line}, {error.why}"
        raise BadValue(error.what, error.value, why) from error


def _check_watch(file: Path, text: str, dataset: str, document: object) -> None:
    """Refuse a watch of this file with the line of its first mistake."""
    from headgate.core.ledger.watches.parsing import parse_watch

    try:
        parse_watch(dataset, document)
    except BadValue as error:
        line = _line_within(text, ("dataset", dataset, "watch"), error.what.rpartition(".")[2])
        raise BadValue(error.what, error.value, f"in {file.name}, line {line}, {error.why}") from error


def _check_command(file: Path, text: str, job: str, body: Mapping[str, Any]) -> None:
    """Refuse a command, and how often it is done again, with the line in this file."""
    try:
        parse_command(job, body)
        parse_recur(body.get("recur", 0))
    except BadValue as error:
        line = _line_within(text, ("job", job), error.what)
        raise BadValue(error.what, error.value, f"of job {job} in {file.name}, line {line}, {error.why}") from error


def _line_within(text: str, table: Sequence[str], name: str) -> int:
    """The line of a key within a table, or within the nearest enclosing table that has its own heading."""
    lines = text.splitlines()
    for depth in range(len(table), 0, -1):
        parts = r"\s*\.\s*".join(rf"[\"']?{re.escape(part)}[\"']?" for part in table[:depth])
        start = next((number for number, line in enumerate(lines) if re.match(rf"\s*\[\s*{parts}\s*\]", line)), None)
        if start is not None:
            path = (*table[depth:], name)
            return _line_of_path(lines, start, path[:-1] if name == table[-1] else path)
    return _line(text, name)


def _line_of_path(lines: Sequence[str], start: int, path: Sequence[str]) -> int:
    """The line of the last of these keys, each after the one before: inline tables have several keys on a line."""
    at, column = start, 0
    end = next(
        (number for number in range(start + 1, len(lines)) if lines[number].lstrip().startswith("[")), len(lines)
    )
    for name in path:
        pattern = re.compile(rf"(?:^|(?<=[\s.\[{{,\"'])){re.escape(name)}(?=[\"']?\s*[.\]=])")
        for number in range(at, end):
            found = pattern.search(lines[number], column if number == at else 0)
            if found is not None:
                at, column = number, found.end()
                break
    return at + 1


def _check_names(file: Path, text: str, content: Mapping[str, object], known: tuple[str, ...], where: str = "") -> None:
    for name in content:
        if name not in known:
            place = f"{where}in {file.name}, line {_line(text, name)},"
            raise BadValue("key", name, f"{place} is unknown; {suggestion(name, known)}")


def _table(file: Path, text: str, content: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = content.get(name, {})
    if not isinstance(found, Mapping):
        raise BadValue("key", name, f"in {file.name}, line {_line(text, name)}, is not a table; write [{name}.NAME]")
    return found


def _check_lists(file: Path, text: str, name: str, body: Mapping[str, Any]) -> None:
    for key in ("inputs", "outputs", "fan_out", "secret_jobs"):
        if key in body and not isinstance(body[key], list):
            raise BadValue(
                key, body[key], (f"of {name} in {file.name}, line {_line(text, key)}, is not a list of names")
            )


def _line(text: str, name: str) -> int:
    """The first line with the name as a key or in a heading."""
    pattern = re.compile(rf'(^|[.\[{{"\s]){re.escape(name)}(["\s.\]=]|$)')
    return next((number for number, line in enumerate(text.splitlines(), 1) if pattern.search(line)), 1)
