"""No mode, state or event of the tables is written as a literal outside the core, which names them."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import headgate
from headgate.core.ledger.parsing import STATUS_WORDS
from headgate.core.locks.model import Mode
from headgate.core.queue.model import HOLD_EVENTS, JOB_EVENTS, REPAIR_EVENT
from headgate.core.queue.rules import QUEUE_RULES
from headgate.core.tables.machine import Also, By
from headgate.core.tables.states import CHUNK, LOCK
from headgate.core.tables.tones import TONES
from tests.unit.typed_words import quoted_words, typed_words

PACKAGE = Path(headgate.__file__).parent
#: Quotes of templates and scripts.
QUOTES_OF_SCRIPTS = "'\"`"
MACHINES = [LOCK, CHUNK, *(machine for rules in QUEUE_RULES.values() for machine in (rules.batch, rules.job))]
WORDS = {word for machine in MACHINES for word in (*machine.states, *machine.events)}
WORDS |= {*Mode, *STATUS_WORDS.values(), *HOLD_EVENTS, *JOB_EVENTS, REPAIR_EVENT}

#: Words that have another meaning where they are written: once in that file, or as often as SEVERAL says.
ALLOWED = {
    # Names of methods.
    "calls/deadlines.py": {"forget", "expire", "publish", "resubmit", "reap", "repair", "late", "success", "report"},
    "client/queue.py": {"reap", "report", "failed"},
    "http/routes/inventory.py": {"forget"},
    # Arguments, parameters of requests, headers and forms.
    "client/locks.py": {"wait"},
    "client/sending.py": {"wait"},
    "http/errors.py": {"accept"},
    "http/routes/queue.py": {"report", "failed"},
    "ingest/steps/prepared.py": {"delete"},
    "ingest/storage/http.py": {"delete"},
    "ingest/storage/s3.py": {"create", "storing"},
    "operations/inventory.py": {"new", "report", "failed"},
    "stores/sql/inventory/store.py": {"start"},
    "stores/sql/queue/snapshots.py": {"hold"},
    "stores/zookeeper/queue/snapshots.py": {"hold"},
    # Keys of documents.
    "cli/access/tokens.py": {"held"},
    "cli/ingest/acts.py": {"held", "refused", "deleted"},
    "cli/ingest/item_command.py": {"report"},
    "cli/ingest/objects.py": {"deleted"},
    "cli/ledger/jobs.py": {"failed"},
    "cli/ledger/lookout.py": {"refused"},
    "cli/ledger/loop_progress.py": {"failed"},
    "cli/locks/commands.py": {"released", "held", "broken"},
    "daemons/reporting.py": {"report"},
    "ingest/notices/batch_mails.py": {"report"},
    "service/locks/use_cases.py": {"waiting"},
    "service/overview/counts.py": {"expired", "failed", "held", "waiting"},
    "stores/sql/moving/queue.py": {"processing", "failed", "completed"},
    "stores/sql/queue/rows.py": {"failed", "report"},
    "stores/zookeeper/locks/records.py": {"waiting"},
    # Commands.
    "cli/tree.py": {"late"},
    # Nouns.
    "cli/store/doctor.py": {"hold", "claim"},
    "cli/store/server.py": {"claim"},
    "cli/terminal/failures.py": {"claim"},
    "http/dashboard/history.py": {"hold"},
    "stores/sql/history.py": {"hold"},
    "stores/zookeeper/queue/questions.py": {"hold"},
    # How a child process of a loop ended.
    "cli/ledger/job_loop.py": {"broken"},
    # Columns and tables of pages and of the terminal.
    "cli/ledger/work_progress.py": {"DONE", "RUNNING", "failed"},
    "cli/ingest/items.py": {"DONE"},
    "cli/ingest/operators.py": {"DONE"},
    "http/dashboard/pipeline/late.py": {"late"},
    "http/dashboard/ingest/lists.py": {"completed", "failed"},
    "http/dashboard/locks.py": {"waiting", "held"},
    "http/dashboard/overview.py": {"waiting", "failed"},
    "service/ledger/census.py": {"waiting"},
    # Messages, and the state of their delivery.
    "http/dashboard/messages.py": {"failed"},
    "ingest/notices/messages.py": {"report", "failed"},
    "stores/sql/inventory/statements.py": {"waiting"},
    # Options of profiles and jobs.
    "ingest/profiles/profile.py": {"fail"},
    "ingest/steps/recording.py": {"fail"},
    "operations/ledger.py": {"interrupt"},
    "service/ledger/definitions.py": {"interrupt"},
    "service/ledger/use_cases.py": {"interrupt"},
    "stores/sql/schema.py": {"interrupt"},
    # Words in sentences, and parts of other words.
    "http/dashboard/pipeline/chunks.py": {"released"},
    "http/metrics.py": {"other"},
    "ingest/formats/ezid.py": {"success", "error"},
    "ingest/stopping.py": {"waiting"},
    "ingest/storage/ocfl_content.py": {"storing"},
    "service/secrets/sealing.py": {"new"},
    "stores/sql/migrations/migrate.py": {"finish"},
    "stores/sql/migrations/versions/2026_11_16_0001_initial.py": {"new"},
    # Words of others: a tool, a service, HTTP.
    "ingest/containers/unpacking.py": {"error"},
    "operations/declaring.py": {"wait", "DELETE"},
}
SEVERAL = {
    ("calls/deadlines.py", "expire"): 2,
    ("calls/deadlines.py", "forget"): 2,
    ("cli/ingest/item_command.py", "report"): 2,
    ("cli/ledger/jobs.py", "failed"): 2,
    ("cli/ledger/work_progress.py", "failed"): 2,
    ("cli/tree.py", "late"): 3,
    ("http/dashboard/locks.py", "held"): 2,
    ("http/dashboard/locks.py", "waiting"): 3,
    ("http/dashboard/messages.py", "failed"): 2,
    ("ingest/formats/ezid.py", "success"): 3,
    ("ingest/notices/messages.py", "failed"): 2,
    ("ingest/profiles/profile.py", "fail"): 2,
    ("ingest/steps/prepared.py", "delete"): 2,
    ("operations/ledger.py", "interrupt"): 2,
    ("service/overview/counts.py", "expired"): 3,
    ("service/overview/counts.py", "failed"): 2,
    ("service/overview/counts.py", "held"): 2,
    ("service/overview/counts.py", "waiting"): 3,
    ("stores/sql/inventory/statements.py", "waiting"): 4,
    ("stores/sql/queue/rows.py", "failed"): 2,
    ("stores/zookeeper/locks/records.py", "waiting"): 2,
}


def typed() -> Iterator[tuple[str, int, str]]:
    """Every such literal outside the core: the file, the line, the word."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if PACKAGE / "core" not in path.parents:
            for line, word in typed_words(ast.parse(path.read_text()), WORDS):
                yield str(path.relative_to(PACKAGE)), line, word


def test_no_mode_state_or_event_is_a_literal_outside_the_core() -> None:
    found = list(typed())
    assert [f"{name}:{line}: {word}" for name, line, word in found if word not in ALLOWED.get(name, ())] == []
    typed_so_often = Counter((name, word) for name, _, word in found)
    assert typed_so_often == {(name, word): SEVERAL.get((name, word), 1) for name in ALLOWED for word in ALLOWED[name]}


def test_no_mode_state_or_event_is_a_literal_in_a_template_or_a_script() -> None:
    files = [path for path in PACKAGE.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")]
    assert {".html", ".js"} <= {path.suffix for path in files}
    texts = {path.name: path.read_text("utf-8") for path in files}
    found = {(name, word) for name, text in texts.items() for word in quoted_words(text, WORDS, QUOTES_OF_SCRIPTS)}
    # An event of the browser, and the delivery of a message.
    assert found == {("live.js", "submit"), ("messages.html", "failed")}


def modes_in(tree: ast.AST) -> list[str]:
    """Modes that are chosen by name."""
    return [
        f"{node.lineno}: Mode.{node.attr}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Mode"
    ]


def test_no_store_chooses_a_mode_of_a_lock_by_name() -> None:
    stores = sorted((PACKAGE / "stores").rglob("*.py"))
    assert [(path.name, mode) for path in stores for mode in modes_in(ast.parse(path.read_text()))] == []


def test_the_search_finds_literals_of_every_form() -> None:
    typed = """
def find(status, mode):
    "the READY ones"
    check_span("wait", status)
    if status == "RUNNING" or mode is Mode.EXCLUSIVE:
        return run("select 1 where status = 'held'"), CHUNK.find(status, "claim"), "claim it"
    if status in "READY DONE".split() or status.encode() == b"HOLD":
        return json.loads('{"status": "ERROR"}')
    if status.lower() in ("pending", "of no table") or f"{mode}".upper() == "SHARED":
        return f"/jobs?after={status}&state=failed", "headgate ingest jobs --state completed", "--state failed-ones"
    match status:
        case "released":
            return table("RELEASED")
"""
    found = sorted(word for _, word in typed_words(ast.parse(typed), WORDS))
    assert found == [
        "DONE", "ERROR", "HOLD", "READY", "RUNNING", "SHARED", "claim", "completed", "failed", "held", "pending",
        "released",
    ]  # fmt: skip
    assert modes_in(ast.parse(typed)) == ["5: Mode.EXCLUSIVE"]


def members_read(trees: Iterator[ast.AST]) -> set[str]:
    """Members of the tables' flags that code reads by name."""
    return {
        f"{node.value.id}.{node.attr}"
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }


def test_every_effect_and_every_guard_is_used_by_code() -> None:
    """By code other than the tables. The effect of each is tested for each row, in the core and on every store."""
    files = (path for path in PACKAGE.rglob("*.py") if PACKAGE / "core/tables" not in path.parents)
    read = members_read(ast.parse(path.read_text(encoding="utf-8")) for path in files)
    members = {f"{kind.__name__}.{each.name}" for kind in (Also, By) for each in kind} - {"Also.NOTHING"}
    assert members - read == set()


def test_every_word_with_a_colour_is_in_the_tables() -> None:
    assert set(TONES) <= WORDS
