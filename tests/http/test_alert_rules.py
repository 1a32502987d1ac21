"""The shipped alert rules: Prometheus accepts them, all of their cases pass, and their metrics exist."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from headgate import Gate
from headgate.core.alarms import KINDS_OF_ALARM
from headgate.core.counts import MEANINGS
from headgate.http.metrics import KNOWN
from tests.http.conftest import Tokens
from tests.servers import find_program

RULES = Path(__file__).parents[2] / "packaging/prometheus/headgate-alerts.yml"
CASES = RULES.with_name("headgate-alerts-test.yml")
PAGE = Path(__file__).parents[2] / "docs/how-to/alerts.md"
#: A metric with the labels that it must have, and the labels by which values are aggregated.
_METRIC = re.compile(r"\b(headgate_\w+?)(?:_bucket|_sum|_count)?\b(?:\{([^}]*)\})?")
_MATCH = re.compile(r'(\w+)=~?"([^"]*)"')


def promtool(*words: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    program = find_program("promtool", "prometheus", "/usr/bin:/usr/local/bin")
    return subprocess.run([program, *words], input=text, capture_output=True, text=True, timeout=60, check=False)


def alerts() -> list[str]:
    return re.findall(r"- alert: (\w+)", RULES.read_text(encoding="utf-8"))


def expressions() -> list[str]:
    return re.findall(r"^ +expr: (.+)$", RULES.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("words", [("check", "rules", str(RULES)), ("test", "rules", str(CASES))])
def test_prometheus_accepts_the_rules_and_every_case_passes(words: tuple[str, ...]) -> None:
    done = promtool(*words)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_case_that_expects_something_else_fails(tmp_path: Path) -> None:
    text = CASES.read_text(encoding="utf-8").replace("rule_files: [", f"rule_files: [{RULES.parent}/")
    changed = tmp_path / "cases.yml"
    changed.write_text(text, encoding="utf-8")
    assert promtool("test", "rules", str(changed)).returncode == 0
    changed.write_text(text.replace("4d 0h 0m 0s", "5d 0h 0m 0s"), encoding="utf-8")
    assert promtool("test", "rules", str(changed)).returncode != 0


def test_every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_is_silent() -> None:
    text = CASES.read_text(encoding="utf-8")
    silent = re.findall(r"alertname: (\w+), exp_alerts: \[\]", text)
    fires = re.findall(r"alertname: (\w+)\n\s+exp_alerts:\n", text)
    assert (set(silent), set(fires)) == (set(alerts()), set(alerts()))


def test_every_alert_is_documented_and_every_documented_alert_is_shipped() -> None:
    assert re.findall(r"^\| `(Headgate\w+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE) == alerts()


def test_every_metric_of_the_rules_is_reported_with_these_labels(gate: Gate, with_scopes: Tokens) -> None:
    page = with_scopes("read").get("/metrics").text
    reported = {line.split()[2] for line in page.splitlines() if line.startswith("# TYPE")}
    used = {(name, labels) for each in expressions() for name, labels in _METRIC.findall(each)}
    known = {each.shown: set(each.labels) | {"instance"} for each in KNOWN}
    assert {name for name, _ in used} <= reported
    for name, labels in used:
        assert {label for label, _ in _MATCH.findall(labels)} <= known[name], name
    assert len(used) > len(alerts()) / 2


def test_label_values_in_the_rules_exist() -> None:
    words = [pair for each in expressions() for pair in _MATCH.findall(each)]
    known = {"kind": set(KINDS_OF_ALARM), "count": set(MEANINGS)}
    for label, text in words:
        if label in known:
            assert set(text.split("|")) <= known[label]


def test_alarms_are_counted_by_their_kind(gate: Gate, with_scopes: Tokens) -> None:
    def counted(client: Callable[[], str]) -> dict[str, float]:
        found = re.findall(r'^headgate_alarms\{kind="([^"]+)"\} (\S+)$', client(), re.MULTILINE)
        return {kind: float(value) for kind, value in found}

    reader = with_scopes("read")
    assert counted(lambda: reader.get("/metrics").text) == dict.fromkeys(KINDS_OF_ALARM, 0.0)
    gate.queue.submit("m", "me", "https://example.org/x")
    found = counted(lambda: reader.get("/metrics").text)
    assert sum(found.values()) == len(gate.alarms()) > 0
