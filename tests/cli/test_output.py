"""On a terminal: tables that fit, and colours that can be switched off. Elsewhere: plain text."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from headgate.cli.terminal import output
from headgate.cli.terminal.tables import cells, fitted
from headgate.cli.tree import COMMANDS, GROUPS
from tests.cli.commands import Headgate
from tests.cli.terminal import typed

FLOW = [("sum", "m_tidy", "a_report"), ("tidy", "z_raw", "m_tidy")]
LONG = "mysql://db1/" + "a-rather-long-name-of-a-database/" * 5


def on_terminal(headgate: Headgate, *words: str, width: int = 100, errors: bool = False, **environment: str) -> str:
    """The command's output on a terminal of that width; with its stderr on request."""
    code, shown = typed(headgate, *words, width=width, errors=errors, **environment)
    assert code == 0
    return shown


@pytest.mark.parametrize("width", [80, 120])
def test_a_table_fits_the_terminal_and_keeps_ids_whole(headgate: Headgate, width: int) -> None:
    lock = headgate.acquire(LONG)
    written = on_terminal(headgate, "lock", "list", width=width, NO_COLOR="1")
    assert max(len(line) for line in written.splitlines()) <= width
    assert "alice" in written
    assert lock["id"] in written
    assert "mysql:/" in written
    assert f"(cut to {width} columns: --wide shows everything)" in written
    for whole in (on_terminal(headgate, "lock", "list", "--wide", width=width), headgate("lock", "list").out):
        assert LONG in whole
        assert "TOKEN" in whole
        assert "cut to" not in whole


def test_text_is_cut_before_columns_are_left_out() -> None:
    rows = [["jid0000000001", "failed", "a long story of what went wrong", "12 s ago"]]
    headings = ["ID", "STATE", "WHY", "SINCE"]
    (_, line), is_cut = fitted(headings, rows, 50)
    assert ["".join(cell.split()) for cell in line] == ["jid0000000001", "failed", "alongstoryof…", "12sago"]
    assert is_cut
    assert sum(map(len, line)) + 6 == 50
    (first, _), _ = fitted(headings, rows, 40)
    assert [cell.strip() for cell in first] == ["ID", "STATE", "WHY"]
    (_, line), is_cut = fitted(headings, rows, 80)
    assert ([cell.strip() for cell in line], is_cut) == (rows[0], False)
    (_, line), _ = fitted(["ID", "RESOURCE"], [["1", "mysql://db1/" + "x" * 40 + "/core"]], 30)
    assert [cells(cell) for cell in line] == [2, 26]
    assert line[1].startswith("mysql://")
    assert line[1].endswith("/core")
    (_, line), _ = fitted(["ID", "WHY"], [["1", "日本" * 20]], 24)
    assert sum(map(cells, line)) + 2 <= 24


@pytest.mark.parametrize(
    ("headings", "row"),
    [
        (("DATASET", "SOURCE", "WATCHER", "LOOKED", "LAST FILE", "FILES", "CHANGED", "WAITING", "PROBLEM"),
         ("orders", "/data/incoming/orders", "quiet for 26 h", "45 min 44 s ago", "45 min 46 s ago", "1,000", "1", "0",
          "orders-20260230.csv has '20260230', which is not a time")),
        (("DATASET", "EXPECTS", "LATE", "OLDEST", "NEXT", "LATE AT"),
         ("orders", "every day, at 06:00 Europe/Berlin, late 2 h after", "10", "9 d 6 h ago", "2026-11-20",
          "2026-11-20 07:00 UTC")),
        (("DATASET", "FILE", "DATA ID", "NOT COUNTED BECAUSE"),
         ("orders", "2026/november/week47/" + "x" * 40, "", "it is the marker of 2026/november/week47/a.csv")),
    ],
)  # fmt: skip
def test_tables_of_late_data_and_watchers_fit_80_columns(headings: Sequence[str], row: Sequence[str]) -> None:
    lines, is_cut = fitted(headings, [row], 80)
    assert is_cut
    for line in lines:
        assert sum(map(cells, line)) + 2 * (len(line) - 1) <= 80
    assert {"DATASET", headings[-1]} <= {cell.strip() for cell in lines[0]}


def test_the_grid_is_drawn_in_the_order_of_the_flow(headgate: Headgate) -> None:
    jobs = "".join(f'[job.{job}]\ninputs = ["{source}"]\noutputs = ["{made}"]\n' for job, source, made in FLOW)
    datasets = "".join(f"[dataset.{name}]\n" for name in ("a_report", "m_tidy", "z_raw"))
    (headgate.folder / "pipeline.toml").write_text(datasets + jobs)
    assert headgate("define", "pipeline.toml").code == 0
    assert headgate("data", "publish", "z_raw", "1..2").code == 0
    assert headgate("job", "run", "tidy", "--", "false").code == 1
    shown = headgate("data", "grid")
    assert shown.out.splitlines()[:3] == [
        "DATAID  z_raw  m_tidy  a_report", "1       #      x       .", "2       #      .       .",
    ]  # fmt: skip
    assert max(map(len, shown.out.splitlines())) <= 80
    assert list(headgate("data", "grid", "--json").json["1"]) == ["z_raw", "m_tidy", "a_report"]
    coloured = on_terminal(headgate, "data", "grid")
    assert "\x1b[1;31mx\x1b[0m" in coloured
    assert "\x1b" not in on_terminal(headgate, "data", "grid", NO_COLOR="1")
    narrow = on_terminal(headgate, "data", "grid", width=24, NO_COLOR="1")
    assert narrow.startswith("DATAID  1  2  3\n1       #  x  .\n")
    assert "1 z_raw, 2 m_tidy,\n3 a_report" in narrow
    assert max(map(len, narrow.splitlines())) <= 24
    assert narrow.endswith("? other, . nothing\n")


def test_every_command_has_one_place_in_the_root_help(headgate: Headgate) -> None:
    named = [name for names in GROUPS.values() for name in names]
    assert sorted(named) == sorted(COMMANDS)
    shown = headgate("--help").out
    assert max(map(len, shown.splitlines())) <= 80
    places = [shown.index(word) for word in ("lock  ", "ledger  ", "queue  ", "headgate init", "headgate up --example")]
    assert places == sorted(places)
    assert [shown.index(f"\n{heading}:") for heading in GROUPS] == sorted(shown.index(f"\n{each}:") for each in GROUPS)


def test_colours_are_used_only_on_a_terminal_and_can_be_turned_off(headgate: Headgate) -> None:
    headgate.acquire("db")
    for words in (["lock", "list"], ["lock", "acquire", "other", "--mode", "shared"]):
        assert "\x1b[" in on_terminal(headgate, *words)
        plain = on_terminal(headgate, *words, NO_COLOR="1")
        assert "\x1b" not in plain
        assert "exclusive" in plain or "shared" in plain


def test_json_is_indented_on_a_terminal_and_one_line_in_a_pipe(headgate: Headgate) -> None:
    assert on_terminal(headgate, "status", "--json").startswith("{\n  ")
    assert headgate("status", "--json").out.count("\n") == 1


def test_a_clock_that_is_ahead_causes_no_negative_age() -> None:
    assert output.ago(datetime.now(UTC) + timedelta(seconds=30)) == "0 s ago"


def test_names_that_the_terminal_cannot_show_are_escaped(headgate: Headgate) -> None:
    headgate.acquire("größe-日本")
    done = headgate("lock", "list", LANG="C", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.code == 0
    assert "gr\\xf6\\xdfe" in done.out


HELPED = [
    [],
    ["lock"],
    *(["lock", verb] for verb in ("acquire", "release", "renew", "check", "upgrade", "downgrade", "list", "show")),
    ["lock", "break"],
    ["lock", "run"],
    ["status"],
    ["history"],
    ["settings"],
    ["migrate"],
]


@pytest.mark.parametrize("words", HELPED, ids=" ".join)
def test_help_begins_with_a_sentence_and_has_examples(headgate: Headgate, words: list[str]) -> None:
    done = headgate(*words, "-h")
    assert done.code == 0
    assert done.out == headgate(*words, "--help").out
    usage, _, body = done.out.partition("\n\n")
    assert usage.startswith("Usage: headgate")
    assert body.lstrip()[0].isupper()
    assert "  headgate " in body or "HEADGATE_URL=" in body
    if words not in ([], ["lock"]):
        assert "--json" in body
