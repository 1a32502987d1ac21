"""A second `headgate up`: it reports what is already running, where, and how to sign in. And the format of its log."""

import json
import logging
import re
import shlex
import signal
from pathlib import Path

import pytest

from headgate.telemetry import ReadableLines, event
from tests.announced import announced
from tests.cli.commands import Headgate
from tests.cli.test_output import on_terminal
from tests.servers import free_port


def typed(command: Headgate, line: str) -> str:
    """The output of a command in a text."""
    done = command(*shlex.split(line.removeprefix("to sign in: headgate ")))
    assert done.code == 0, done.err
    return done.out


def test_a_second_start_says_that_it_runs_where_and_how_to_sign_in(headgate: Headgate, tmp_path: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    process = headgate.start("up", "--listen", f"127.0.0.1:{port}", "--json")
    assert announced(process)["url"] == url
    again = headgate("up", "--listen", f"127.0.0.1:{port}", "-q")
    assert (again.code, again.err.splitlines()[0]) == (
        75,
        f"headgate: a service is already running on this store, at {url}",
    )
    assert typed(headgate, again.err.splitlines()[1]).startswith(f"{url}/sign-in#code=hgc_")
    beside = headgate("up", "--listen", "127.0.0.1:0", "--once", "--log-format", "text")
    assert f"another service is running on this store, at {url}\n" in beside.err
    assert re.search(r"^to sign in: headgate token sign-in \w+ --at http://127.0.0.1:\d+$", beside.err, re.MULTILINE)
    assert not [line for line in beside.err.splitlines() if line.startswith("{")]
    elsewhere = Headgate(f"sqlite:///{tmp_path}/other.db", tmp_path)
    other = elsewhere("up", "--listen", f"127.0.0.1:{port}", "-q")
    assert (other.code, "already running" in other.err, "in use" in other.err) == (2, False, True)
    process.send_signal(signal.SIGTERM)
    _out, err = process.communicate()
    assert {"daemon.started", "daemon.stopped"} <= {json.loads(line)["event"] for line in err.splitlines()}
    assert "another service" not in headgate("up", "--listen", "127.0.0.1:0", "--once").err


def test_the_log_is_readable_on_a_terminal_and_json_on_request(headgate: Headgate) -> None:
    words = ("lock", "acquire", "x", "--mode", "shared", "--client", "a", "-v")
    shown = on_terminal(headgate, *words, errors=True)
    assert re.search(r"^\d\d:\d\d:\d\d info    lock\.\w+ ", shown, re.MULTILINE), shown
    forced = on_terminal(headgate, *words, errors=True, HEADGATE_LOG_FORMAT="json")
    assert re.search(r'^\{"at": ', forced, re.MULTILINE)
    assert "is not one of auto, text, json" in headgate("lock", "list", "-v", HEADGATE_LOG_FORMAT="xml").err


def test_a_readable_line_has_no_secrets_or_terminal_commands(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="headgate"):
        event("lock.granted", resource="a b\x1b[31m", token=7, job_key="s3cret", traceback="one\n  two")
    line = ReadableLines().format(caplog.records[0])
    assert line.partition(" ")[2] == (
        'info    lock.granted resource="a b\\u001b[31m" token=7 job_key=(hidden)\n    one\n      two'
    )
