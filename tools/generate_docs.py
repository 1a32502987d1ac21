"""Write the pages of the docs that are made from code or figures, or check (`--check`) that they are current."""

from __future__ import annotations

import dataclasses
import inspect
import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import click
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateIndex, CreateTable

from headgate.cli.terminal.failures import EXIT_CODES, MEANINGS
from headgate.cli.tree import root
from headgate.core import errors, known_settings
from headgate.core.tables import describe, diagram
from headgate.core.tables.machine import Machine
from headgate.core.tables.states import MACHINES
from headgate.http import metrics
from headgate.ingest.profiles.profile import Profile
from headgate.stores.sql import schema
from headgate.stores.sql.history_schema import KNOWN_DOMAIN, history
from headgate.stores.zookeeper import tree
from headgate.stores.zookeeper.queue import tree as queue_tree
from headgate.stores.zookeeper.queue.spellings import SPELLINGS

sys.path.insert(0, str(Path(__file__).parent.parent))
from tools import api_pages
from tools.evidence import with_evidence
from tools.format_pages import manifests_page, ocfl_page, pipeline_page

ROOT = Path(__file__).parent.parent
#: The rows that the contract suite executed, recorded by `make transitions`.
TRANSITIONS = "docs/reference/transitions.json"
#: The page with the evidence, and the figures of the last full run of each fault test, recorded by `make torture`.
PROMISES, FIGURES = "docs/explanation/promises.md", "docs/explanation/torture.json"
NOTICE = "<!-- Made by `make docs` from the code. Change the code, not this page. -->\n"


def with_notice(page: str) -> str:
    """A page whose first line, its title, is followed by the notice."""
    title, _, rest = page.partition("\n\n")
    return f"{title}\n\n{NOTICE}\n{rest}"


def states_page() -> str:
    """Every state table, with its diagram."""
    parts = ["# States\n", NOTICE, "Rules are tables. These are the tables that the code executes.\n"]
    parts += ["## Who may hold a resource beside whom\n", describe.compatibility_table() + "\n"]
    for machine in MACHINES:
        parts += [f"## {machine.name.capitalize()}\n", f"![The states of a {machine.name}]({_picture(machine)})\n"]
        parts += [_coverage(machine, _taken(machine)) + "\n"]
        parts += [describe.machine_table(machine) + "\n"]
        parts += [f"The history records: {', '.join(machine.told)}.\n"]
    return "\n".join(parts)


def _picture(machine: Machine) -> str:
    return f"states-{machine.name.replace(' ', '-')}.svg"


def _taken(machine: Machine) -> dict[str, list[str]]:
    """The rows that the contract suite executed, each with its stores."""
    noted: dict[str, dict[str, list[str]]] = json.loads((ROOT / TRANSITIONS).read_text(encoding="utf-8"))
    return noted[machine.name]


def states_picture(machine: Machine) -> str:
    """A state table as a picture."""
    return diagram.draw(machine, _taken(machine))


def _coverage(machine: Machine, taken: dict[str, list[str]]) -> str:
    """The rows that the contract suite executed, and on which stores."""
    stores = sorted({store for found in taken.values() for store in found})
    counts = [f"{store} {sum(store in taken.get(row.name, ()) for row in machine.rows)}" for store in stores]
    return f"Rows that the contract suite takes (✓), of {len(machine.rows)}: {', '.join(counts)}."


def errors_page() -> str:
    """The error tree, and each error's attributes."""
    tree = (errors.__doc__ or "").partition("\n\n")[2].rstrip()
    parts = ["# Errors\n", NOTICE, "All are exported from `headgate`.\n", "```text", tree, "```\n"]
    for name, kind in vars(errors).items():
        if inspect.isclass(kind) and issubclass(kind, errors.HeadgateError):
            shown = f".. autoexception:: headgate.{name}()\n   :members:\n   :show-inheritance:"
            parts.append(f"## {name}\n\n```{{eval-rst}}\n{shown}\n```\n")
    return "\n".join([*parts, _exit_codes()])


def _exit_codes() -> str:
    kinds = {code: ", ".join(f"`{kind.__name__}`" for kind, its in EXIT_CODES if its == code) for code in MEANINGS}
    rows = [f"| {code} | {meaning} | {kinds[code]} |" for code, meaning in MEANINGS.items()]
    return "\n".join(
        [
            "## Exit codes\n",
            "`lock run` and `job run` pass on the exit code of the command that they ran (126 and 127: it cannot be",
            "run, or is not there; 128 + n: signal n ended it).\n",
            "| code | meaning | errors |",
            "| --- | --- | --- |",
            *rows,
            "",
        ]
    )


def settings_page() -> str:
    """Every setting."""
    rows = [
        (f"`{known.name}`", f"`{known.variable}`", f"`{known.default}`", known.meaning)
        for known in known_settings.KNOWN
    ]
    lead = (
        "A setting is looked for in this order, the first that has it wins: a flag, the environment,\n"
        "`headgate.toml` in the working folder, `~/.config/headgate/headgate.toml`, `/etc/headgate/headgate.toml`.\n"
        "`headgate settings` shows each value and where it came from.\n"
    )
    return "\n".join(
        ["# Settings\n", NOTICE, lead, describe.table(("setting", "environment", "default", "meaning"), rows) + "\n"]
    )


def profiles_page() -> str:
    """Every key of an ingest profile."""
    lead = (
        "A profile is a TOML file; its name without `.toml` is the profile's name. A batch keeps the profile that it\n"
        "started with ([what is frozen when](../explanation/ingest.md#what-is-frozen-when)). A key without a\n"
        "default is required.\n"
    )
    parts = ["# Ingest profiles\n", NOTICE, lead]
    for title, kind in (("The profile", Profile), *_tables_of(Profile)):
        rows = [(f"`{key.name}`", _default_of(key), key.metadata["meaning"]) for key in dataclasses.fields(kind)]
        rows = [row for row in rows if row[2]]
        parts += [f"## {title}\n", describe.table(("key", "default", "meaning"), rows) + "\n"]
    return "\n".join(parts)


def _tables_of(kind: type) -> Iterator[tuple[str, type]]:
    for key in dataclasses.fields(kind):
        if key.default_factory is not dataclasses.MISSING:
            yield f"`[{key.name}]`", key.metadata["check"]


def _default_of(key: dataclasses.Field[Any]) -> str:
    if key.default_factory is not dataclasses.MISSING:
        return "a table, see below"
    if key.default is dataclasses.MISSING:
        return ""
    value = list(key.default) if isinstance(key.default, tuple) else key.default
    return f"`{json.dumps(value)}`"


def schema_page() -> str:
    """The SQL tables."""
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    parts = ["# Schema\n", NOTICE, "As PostgreSQL has it; the others differ only in the names of types.\n"]
    for table in schema.metadata.sorted_tables:
        ddl = [KNOWN_DOMAIN.strip() + ";"] if table is history else []
        ddl += [str(CreateTable(table).compile(dialect=dialect)).strip() + ";"]
        ddl += [
            str(CreateIndex(index).compile(dialect=dialect)).strip() + ";"
            for index in sorted(table.indexes, key=lambda i: str(i.name))
        ]
        text = "\n".join(line.rstrip() for line in "\n".join(ddl).replace("\t", "    ").splitlines())
        parts += [f"## {table.name}\n", "```postgresql", text, "```\n"]
    return "\n".join(parts)


def zookeeper_page() -> str:
    """The nodes of a ZooKeeper store, in both spellings of the queue."""
    lead = (
        "What Headgate keeps in an ensemble, below the folder that the URL names (`<chroot>`). Contents are JSON.\n"
        "`design` is the spelling of a store of Headgate's own, `mrt-zk` that of Merritt's library.\n"
    )
    parts = ["# The ZooKeeper tree\n", NOTICE, lead]
    parts += ["## Locks\n", "```text", _nodes_in(tree), "```\n"]
    parts += ["## The queue\n", "```text", _nodes_in(queue_tree), "```\n"]
    queues = {name: kind("") for name, kind in SPELLINGS.items()}
    for name, queue in queues.items():
        parts += [f"## The nodes of a new queue, in the spelling `{name}`\n"]
        parts += ["```text", *(f"<chroot>{node}" for node in sorted(queue.made_at_once)), "```\n"]
    states = queues["mrt-zk"].rules.job.states[1:]
    rows = [(f"`{state}`", *(f"`{queue.word(state)}`" for queue in queues.values())) for state in states]
    parts += ["## The state of a job, as written in its status\n", describe.table(("state", *queues), rows) + "\n"]
    return "\n".join(parts)


def _nodes_in(module: ModuleType) -> str:
    """The diagram of the nodes at the beginning of a module's docstring."""
    return (module.__doc__ or "").partition("\n\n")[2].rstrip()


def commands_page() -> str:
    """Every command's help."""
    parts = ["# Commands\n", NOTICE, "Every command takes `--json`. This page is what `--help` prints.\n"]
    for name, text in _help_of(root, "headgate"):
        parts += [f"## {name}\n", "```text", text.rstrip(), "```\n"]
    return "\n".join(parts)


def _help_of(command: click.Command, name: str, parent: click.Context | None = None) -> Iterator[tuple[str, str]]:
    context = click.Context(
        command, info_name=name.rsplit(maxsplit=1)[-1], parent=parent, terminal_width=100, max_content_width=100
    )
    yield name, command.get_help(context)
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            if found is not None:
                yield from _help_of(found, f"{name} {child}", context)


def metrics_page() -> str:
    """Every metric of the service."""
    lead = (
        "`GET /metrics` answers in Prometheus' text format, to API tokens with the scope `read`. A histogram has the\n"
        "suffixes `_bucket`, `_sum` and `_count`.\n"
    )
    rows = [
        (f"`{each.shown}`", each.kind.__name__.lower(), ", ".join(f"`{label}`" for label in each.labels), each.meaning)
        for each in metrics.KNOWN
    ]
    return "\n".join(
        ["# Metrics\n", NOTICE, lead, describe.table(("metric", "kind", "labels", "meaning"), rows) + "\n"]
    )


def api_page(noun: str) -> str:
    """Every request of a noun, with an example."""
    return with_notice(api_pages.noun_page(noun))


def promises_page() -> str:
    """The page of promises, with the table of the last full fault tests."""
    return with_evidence((ROOT / PROMISES).read_text(encoding="utf-8"), ROOT / FIGURES)


PAGES: dict[str, Callable[[], str]] = {
    "docs/reference/states.md": states_page,
    **{f"docs/reference/{_picture(each)}": partial(states_picture, each) for each in MACHINES},
    "docs/reference/errors.md": errors_page,
    "docs/reference/settings.md": settings_page,
    "docs/reference/profiles.md": profiles_page,
    "docs/reference/pipeline.md": lambda: with_notice(pipeline_page()),
    "docs/reference/manifests.md": lambda: with_notice(manifests_page()),
    "docs/reference/ocfl.md": lambda: with_notice(ocfl_page()),
    "docs/reference/schema.md": schema_page,
    "docs/reference/zookeeper.md": zookeeper_page,
    "docs/reference/commands.md": commands_page,
    "docs/reference/api.md": lambda: with_notice(api_pages.overview_page()),
    **{f"docs/reference/api-{noun}.md": partial(api_page, noun) for noun in api_pages.page_names()},
    "docs/reference/metrics.md": metrics_page,
    PROMISES: promises_page,
}


def main(arguments: list[str]) -> int:
    """Write, or check."""
    stale = []
    for name, make in PAGES.items():
        path = ROOT / name
        text = make().rstrip() + "\n"
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if "--check" not in arguments:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    if stale and "--check" in arguments:
        sys.stderr.write(f"not current, run `make docs`: {', '.join(stale)}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
