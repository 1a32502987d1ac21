"""The runner of the pages detects errors on a page, and ignores valid differences."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import blocks_of
from tests.docs.sessions import Visit

LOCK, OTHER = "7f3a-wdp657xyzkrekls5-xlrepimu6y2t", "2b4c-aaaaaaaaaaaaaaaa-bbbbbbbbbbbb"


@pytest.fixture
def visit(tmp_path: Path) -> Iterator[Visit]:
    visiting = Visit(tmp_path, {":8750": ":4711"})
    yield visiting
    visiting.end()


def session(*lines: str) -> str:
    """A block of a page."""
    return "\n".join(["```console", *lines, "```", ""])


@pytest.mark.parametrize(
    ("lines", "same"),
    [
        (["$ echo yes", "yes"], True),
        (["$ echo yes", "no"], False),
        (["$ echo yes"], False),
        (["$ echo yes", "yes", "no"], False),
        (["$ echo 2026-11-15 10:58:05 UTC, 3 s ago", "2026-01-01 00:00:00 UTC, 12 s ago"], True),
        (["$ echo token 3", "token 4"], False),
        (["$ echo a  b   c", "a b c"], True),
        (["$ echo one \\", "> two", "one two"], True),
        (["$ echo wrong >&2", "wrong"], True),
        (["$ false", "$ echo $?", "1"], True),
        (["$ x=1", "$ echo $x", "1"], True),
        (["$ echo http://127.0.0.1:8750 | tr 47 56", "http://126.0.0.1:5611"], True),
        (["$ pwd", "/home/ann/orders"], True),
    ],
)
def test_printed_output_is_compared_with_the_page(lines: list[str], same: bool, visit: Visit) -> None:
    visit.run(blocks_of(session(*lines)))
    assert (not visit.differences) == same


def test_an_id_on_a_page_can_be_used_further_down(visit: Visit) -> None:
    visit.run(blocks_of(session(f"$ printf '%s-%s\\n' {OTHER[:21]} {OTHER[22:]}", LOCK, f"$ test {LOCK} = {OTHER}")))
    assert not visit.differences


@pytest.mark.parametrize(
    "page",
    [
        session("$ false"),
        session("$ false", "$ true"),
        session("$ exit 3"),
        "```sh\nfalse\ntrue\n```\n",
        "```python\nraise SystemExit(1)\n```\n",
    ],
)
def test_a_command_that_fails_silently_fails_the_page(page: str, visit: Visit) -> None:
    with pytest.raises(AssertionError):
        visit.run(blocks_of(page))


def test_files_are_written_and_a_second_terminal_keeps_running(visit: Visit) -> None:
    page = (
        "Put this into `deep/name.txt`:\n\n```text\nhello\n```\n\n<!-- second terminal -->\n"
        + session("$ cat deep/name.txt; touch there; sleep 60", "hello")
        + "\n<!-- until: test -e there -->\n"
        + session("$ cat deep/name.txt", "hello")
    )
    visit.run(blocks_of(page))
    assert not visit.differences


def test_a_block_marked_as_not_run_is_not_run(visit: Visit) -> None:
    visit.run(blocks_of("<!-- not run: it would fail -->\n```sh\nfalse\n```\n"))
