"""Names and messages from other users never reach a terminal as control codes: every list shows them escaped."""

import json
import logging
import sqlite3
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from headgate import Gate, connect
from headgate.cli.main import main
from headgate.cli.terminal import output
from headgate.cli.tree import root
from headgate.core.logs import LogStream, LogText
from headgate.core.queue.model import NewJob
from headgate.core.values.visible import visible, visible_json
from headgate.telemetry import JsonLines

#: A window title, a cleared screen, a C1 code, a carriage return, bidi controls, a zero-width blank, a tag.
HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\r\u202egpj\u2066\u200b\x85\u2028\U000e0041canary"
SHOWN = r"\x1b]0;owned\x07\x1b[2J\x9b31m\r\u202egpj\u2066\u200b\x85\u2028\U000e0041canary"
#: Commands that list or show something, by their arguments; those without arguments need none.
LISTS: dict[str, list[str]] = {
    "lock list": [], "lock waiters": [], "data list": [], "data grid": [], "job list": [], "job plan": ["plain"],
    "job explain": ["plain", "1"], "job connections": ["plain"], "token list": [], "ingest batches": [],
    "ingest jobs": [], "ingest holds": [], "ingest objects": [], "ingest profiles": [], "messages list": [],
    "status": [], "history": [], "doctor": [], "settings": [], "store show": [],
    "incident list": [], "job logs": ["plain", "1"], "watch list": [], "ingest summary": [], "ingest metrics": [],
    "late": [],
}  # fmt: skip
#: Those whose output contains the canary.
WITH_CANARY = {
    "lock list", "data list", "status", "job list", "job plan", "job explain", "job connections", "token list",
    "ingest batches", "ingest jobs", "ingest holds", "history", "settings", "incident list", "ingest summary",
}  # fmt: skip

#: Commands that refuse what they find, with an error.
REFUSED = ("data grid", "ingest profiles")


def obeyed(text: str) -> list[str]:
    """Characters that a terminal would obey, or not show."""
    return [each for each in text if unicodedata.category(each) in ("Cc", "Cf", "Zl", "Zp", "Cs") and each != "\n"]


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with codes in every name."""
    for name in ("HEADGATE_SERVER", "HEADGATE_API_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    url = f"sqlite:///{tmp_path / 'store.db'}"
    monkeypatch.setenv("HEADGATE_URL", url)
    monkeypatch.setenv("HEADGATE_CLIENT", HOSTILE)
    with connect(url) as gate:
        fill(gate)
    plant(tmp_path / "store.db")
    profiles = tmp_path / "headgate-profiles"
    profiles.mkdir()
    (profiles / f"{HOSTILE}.toml").write_text(f"{json.dumps(HOSTILE)} = 1")
    return tmp_path


def fill(gate: Gate) -> None:
    gate.locks.acquire("canary", "canary:db", "exclusive", note="canary")
    gate.ledger.define_dataset("canary", uri="canary:", settings={"canary": "canary"})
    gate.ledger.define_dataset("made-canary")
    gate.ledger.define_job("canary", inputs=["canary"], outputs=["made-canary"])
    gate.ledger.publish("canary", ["canary", "other-canary"])
    gate.ledger.fail(gate.ledger.claim("canary", "canary", worker="canary"), "canary")
    gate.ledger.define_dataset("in", uri="canary:")
    gate.ledger.define_job("plain", inputs=["in"], max_attempts=1)
    gate.ledger.publish("in", ["1", "2-canary"])
    claim = gate.ledger.claim("plain", "1", worker="canary")
    gate.ledger.keep_log(claim, [LogText(LogStream.STDERR, "canary", 6)], ended=True)
    gate.ledger.fail(claim, "canary")
    gate.tokens.new("canary", ["read"])
    gate.queue.submit("canary", "canary", "http://canary.example.org/")
    taken = gate.queue.acquire_batch("pending")
    assert taken is not None
    gate.queue.create_jobs(taken, [NewJob("http://canary.example.org/1")])
    gate.queue.fire(taken, "start")
    gate.queue.set_hold("canary", reason="canary", by="canary")


def plant(path: Path) -> None:
    """Replace the canary by the codes everywhere; within JSON, in JSON's notation."""
    with sqlite3.connect(path) as store:
        tables = [name for (name,) in store.execute("select name from sqlite_master where type = 'table'")]
        for table in (each for each in tables if each.startswith("hg_")):
            for column in [row[1] for row in store.execute(f"pragma table_info({table})")]:
                within = json.dumps(HOSTILE)[1:-1]
                store.execute(
                    f"update or ignore {table} set {column} = replace({column}, 'canary',"  # noqa: S608 - our own names
                    f" case when {column} like '{{%' or {column} like '[%' then ? else ? end)"
                    f" where typeof({column}) = 'text' and {column} like '%canary%'",
                    (within, HOSTILE),
                )


def test_every_list_shows_hostile_names_escaped(hostile: Path, capfd: pytest.CaptureFixture[str]) -> None:
    found = set()
    for command, words in LISTS.items():
        for flags in ([], ["--json"]):
            code = main([*command.split(), *words, *flags])
            written, said = capfd.readouterr()
            assert obeyed(written + said) == [], command
            assert code in (0, 1, 3) or command in REFUSED, (command, said)
            if flags and code == 0:
                assert "\\ufdd0" not in written
                json.loads(written)
            elif SHOWN in written:
                found.add(command)
    assert found == WITH_CANARY
    assert json.loads(run_json(["lock", "list", "--json"], capfd))["items"][0]["client"] == HOSTILE


def run_json(words: list[str], capfd: pytest.CaptureFixture[str]) -> str:
    assert main(words) == 0
    return capfd.readouterr().out


def test_errors_show_hostile_names_escaped(hostile: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for words in (
        ["lock", "acquire", HOSTILE + ":db"],
        ["lock", "acquire", "x", "--client", HOSTILE],
        ["job", "next", "no-" + HOSTILE],
        ["job", HOSTILE],
        ["define", HOSTILE],
        ["--url", f"sqlite:///{HOSTILE}/x.db", "lock", "list"],
        ["-v", "job", "next", HOSTILE],
    ):
        for flags in ([], ["--json"]):
            main([*flags, *words])
            written = "".join(capfd.readouterr())
            assert obeyed(written) == [], words
            assert "owned" in written, words


def test_every_listing_command_is_tested() -> None:
    """Each new list is added here, or listed as an exception."""
    others = {
        "up", "init", "daemon", "completion", "migrate", "job reap", "keys open", "keys rotate", "keys rewrap",
        "token sign-in", "ingest release", "ingest unpause", "ingest resume", "ingest verify", "ingest audit",
        "messages resend", "work",
    }  # fmt: skip
    unneeding = {name for name, command in leaves(root, "") if not any(each.required for each in command.params)}
    assert unneeding - others == {name for name, words in LISTS.items() if not words}


def leaves(group: click.Group, before: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from leaves(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def test_on_a_terminal_only_our_own_colours_remain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "200")
    written = output.shown(output.table(("MODE", "NAME"), [("exclusive", HOSTILE), ("shared", "plain")]))
    assert "\x1b[33mexclusive\x1b[0m" in written
    assert SHOWN in written
    assert output.shown(f"{output.painted('exclusive')} {HOSTILE}").startswith("\x1b[1;33mexclusive\x1b[0m " + SHOWN)
    assert len(written.split("\n")) == 3
    assert output.shown(output.painted(HOSTILE)).count("\x1b") == 2


def test_harmless_text_is_printed_unchanged() -> None:
    for text in ("Größe", "日本語 全角\u3000x", "10\u00a0000 €", "naïve — “quoted”", "👩 ok", "two\nlines\tand a tab"):
        assert visible(text) == text
        assert json.loads(visible_json(json.dumps(text, ensure_ascii=False))) == text
    assert visible("a\nb\tc", lines=False) == r"a\nb\tc"
    assert json.loads(visible_json(json.dumps({"a": HOSTILE, "b": [1]}, ensure_ascii=False, indent=2)))["a"] == HOSTILE


def test_the_log_shows_hostile_names_escaped() -> None:
    record = logging.LogRecord("headgate", logging.INFO, "x", 1, "event", (), None)
    record.keys = {"why": HOSTILE, "error": ValueError(HOSTILE)}
    line = JsonLines().format(record)
    assert obeyed(line) == []
    assert json.loads(line)["why"] == HOSTILE
