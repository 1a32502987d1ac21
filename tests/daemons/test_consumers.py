"""Consumers as real processes: outcomes of handlers, and what happens when they crash, hang, or their consumer dies."""

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headgate import Gate
from tests.cli.commands import Headgate, read_number
from tests.daemons.queues import bring_to, counts, ended, everything, fill, opened, states
from tests.waiting import until

Script = Callable[[str, str], str]
JOB = "jid0000000001"


def start(command: Headgate, *words: str, **more: str) -> "subprocess.Popen[bytes]":
    return command.start("daemon", "--interval", "0.2", *words, more=more)


def stop(process: "subprocess.Popen[bytes]", number: signal.Signals = signal.SIGTERM) -> list[dict[str, Any]]:
    """Stop it cleanly. Returns its log."""
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, b""), err.decode()
    return [json.loads(line) for line in err.splitlines() if line.startswith(b"{")]


def told(lines: list[dict[str, Any]], event: str) -> list[dict[str, Any]]:
    return [each for each in lines if each["event"] == event]


def state_of(gate: Gate, item: str = JOB) -> str:
    return gate.queue.job(item).state


@pytest.mark.parametrize("headgate", ["sqlite", "postgresql", "mariadb", "zookeeper"], indirect=True)
def test_a_batch_goes_through_every_state(headgate: Headgate, script: Script) -> None:
    """Submitted, split, every step, reported: only with commands, whose output is recorded."""
    rows = json.dumps({"jobs": [{"payload_url": f"http://example.org/{each}"} for each in range(3)]})
    split = script("split", f"echo looking >&2\necho '{rows}'")
    sized = script("size", """echo '{"message": "counted", "space_needed": 123, "priority": 7}'""")
    named = script("name", """echo '{"identifiers": {"primary": "ark:/99999/x", "local": ["a", "b"]}}'""")
    words = everything("true")
    words[words.index("job-estimating=true")] = f"job-estimating={sized}"
    words[words.index("job-processing=true")] = f"job-processing={named}"
    with opened(headgate) as gate:
        batch = gate.queue.submit("demo", "me", "http://example.org/all").id
        process = start(
            headgate, *words, "--exec", f"batch-pending={split}", "--exec", "batch-reporting=true", "--workers", "2"
        )
        until(lambda: gate.queue.batch(batch).state == "completed", "the batch to end")
        lines = stop(process)
        # The cleaner removes the files of completed jobs sooner or later.
        assert ended(gate) == 3
        job = gate.queue.job(JOB)
        assert (job.space_needed, job.priority, job.identifiers.primary) == (123, 7, "ark:/99999/x")
        assert job.identifiers.local == ("a", "b")
        report = gate.queue.batch(batch).report
        assert report is not None
        assert report.successful == tuple(states(gate))
        assert gate.queue.faults() == []
    assert not told(lines, "consumer.crash")


def test_the_environment_of_a_command(on_sqlite: Headgate, script: Script) -> None:
    seen = script(
        "seen",
        'echo "$HEADGATE_ITEM $HEADGATE_STATE $HEADGATE_TOKEN" >>passed; stat -c %a "$HEADGATE_ITEM_FILE" >>passed;'
        'cat "$HEADGATE_ITEM_FILE" >item.json; echo "$HEADGATE_ITEM_FILE" >path; env >env',
    )
    with opened(on_sqlite) as gate:
        fill(gate)
        given = {"HEADGATE_API_TOKEN": "canary", "MY_MODE": "fast", "HEADGATE_EXEC_VARIABLES": "MY_*"}
        process = start(on_sqlite, "--exec", f"job-pending={seen}", **given)
        until(lambda: state_of(gate) == "estimating", "the job to go on")
        stop(process)
        name, mode = (on_sqlite.folder / "passed").read_text().splitlines()
        item = json.loads((on_sqlite.folder / "item.json").read_text())
    assert name == f"{JOB} pending {item['token']}"
    got = dict(line.split("=", 1) for line in (on_sqlite.folder / "env").read_text().splitlines())
    told_of = {"HEADGATE_ITEM", "HEADGATE_STATE", "HEADGATE_TOKEN", "HEADGATE_ITEM_FILE", "HEADGATE_URL"}
    assert set(got) - {"PWD", "SHLVL", "_", "OLDPWD"} == {"PATH", "HOME", "LANG", "MY_MODE", *told_of}
    assert mode == "600"
    assert item["configuration"]["payload_url"] == "http://example.org/0"
    assert not Path((on_sqlite.folder / "path").read_text().strip()).exists()


@pytest.mark.parametrize(
    ("state", "text", "after", "message"),
    [
        ("downloading", "echo one >&2; echo no route >&2; exit 4", "failed", "no route"),
        ("downloading", "exit 5", "failed", "exit code 5"),
        ("downloading", "kill -9 $$", "failed", "ended by signal 9"),
        ("pending", "echo bad digest >&2; exit 1", "failed", "bad digest"),
        ("downloading", """echo '{"priority": 100}'""", "failed", "priority 100"),
        ("downloading", """echo '{"prioritty": 1}'""", "failed", "did you mean 'priority'"),
        ("estimating", "echo no HEAD >&2; exit 1", "provisioning", "its size is unknown: no HEAD"),
    ],
)
def test_a_failure_follows_its_row_of_the_table(
    on_sqlite: Headgate, script: Script, state: str, text: str, after: str, message: str
) -> None:
    with opened(on_sqlite) as gate:
        fill(gate)
        bring_to(gate, state)
        process = start(on_sqlite, "--exec", f"job-{state}={script('step', text)}")
        until(lambda: state_of(gate) != state, "the job to move")
        stop(process)
        job = gate.queue.job(JOB)
        assert job.state == after
        assert message in job.message
        assert (job.space_needed, job.priority) == (0, 10 if after == "provisioning" else 5)


def test_the_output_of_a_command_is_kept_with_each_attempt(on_sqlite: Headgate, script: Script) -> None:
    text = "echo fetching; echo no route to https://ann:hunter2hunter2@example.org >&2; test -e repaired || exit 4"
    with opened(on_sqlite) as gate:
        fill(gate)
        bring_to(gate, "downloading")
        process = start(on_sqlite, "job-downloading", "--exec", f"job-downloading={script('step', text)}")
        until(lambda: state_of(gate) == "failed", "the job to fail")
        (on_sqlite.folder / "repaired").touch()
        gate.queue.resume(JOB)
        until(lambda: state_of(gate) == "processing", "the job to move")
        stop(process)
        shown = on_sqlite("ingest", "logs", JOB, "--step", "downloading").out
        failed = "no route to https://ann:***@example.org"
        assert shown == "".join(
            f"==> downloading, {stream} of attempt {attempt} <==\n{line}\n"
            for attempt, last in ((1, f"failed: {failed}"), (2, "done"))
            for stream, line in (("stdout", "fetching"), ("stderr", failed), ("log", last))
        )
        assert len(on_sqlite("ingest", "logs", JOB, "--json").json["items"]) == 6
        assert on_sqlite("ingest", "logs", JOB, "--step", "recording").out == ""


def test_a_crash_of_python_is_its_class_and_text_and_the_traceback_is_in_the_log(on_sqlite: Headgate) -> None:
    (on_sqlite.folder / "mine.py").write_text(
        "from headgate import Done\n"
        "def crash(item, hold):\n    raise ValueError('no such thing')\n"
        "def nothing(item, hold):\n    pass\n"
        "def leave(item, hold):\n    raise SystemExit(3)\n"
    )
    with opened(on_sqlite) as gate:
        fill(gate, jobs=3)
        bring_to(gate, "recording")
        for function, message in (
            ("crash", "the handler crashed: ValueError: no such thing"),
            ("nothing", "the handler returned None, which is not an outcome"),
            ("leave", "the handler crashed: SystemExit: 3"),
        ):
            for job in gate.queue.jobs("failed"):
                gate.queue.resume(job.id)
            # Alone: otherwise the batch-watcher would report the batch, and nothing could be resumed.
            process = start(on_sqlite, "job-recording", "--handler", f"job-recording=mine:{function}")
            until(lambda: counts(gate) == {"failed": 3}, "the jobs to fail")
            lines = stop(process)
            assert {job.message for job in gate.queue.jobs()} == {message}
            if function == "crash":
                assert len(told(lines, "consumer.crash")) == 3
                assert "in crash" in told(lines, "consumer.crash")[0]["traceback"]
                (log,) = gate.inventory.logs(JOB)
                assert log.text.endswith("ValueError: no such thing\n\n")


@pytest.mark.parametrize("workers", ["1", "2"])
def test_provisioning_checks_all_jobs_and_lets_small_ones_pass(
    on_sqlite: Headgate, script: Script, workers: str
) -> None:
    """Deferred jobs stay, and each is checked in every round: with several workers none is left out."""
    room = script("room", "echo $HEADGATE_ITEM >>looks; case $HEADGATE_ITEM in *2|*4) exit 0;; esac; exit 75")
    (on_sqlite.folder / "headgate.toml").write_text("round_pause = 1.5\n")
    with opened(on_sqlite) as gate:
        fill(gate, jobs=4)
        bring_to(gate, "provisioning")
        process = start(on_sqlite, "--exec", f"job-provisioning={room}", "--workers", workers)
        until(lambda: counts(gate) == {"provisioning": 2, "downloading": 2}, "the small ones to pass")
        until(lambda: min(looks(on_sqlite, each) for each in (JOB, "jid0000000003")) >= 4, "some rounds for both")
        stop(process)
        assert counts(gate) == {"provisioning": 2, "downloading": 2}
    if workers == "1":  # One of several may be so slow that a round of the others passes meanwhile.
        assert abs(looks(on_sqlite, JOB) - looks(on_sqlite, "jid0000000003")) <= 1
    assert looks(on_sqlite, "jid0000000002") == 1


def test_a_batch_whose_handler_crashes_is_retried_without_blocking_others(on_sqlite: Headgate) -> None:
    """Batches have no fail row: it is retried after a growing pause, and those behind it continue."""
    (on_sqlite.folder / "mine.py").write_text(
        "from headgate import Done\n"
        "def split(item, hold):\n"
        "    open('looks', 'a').write(item.id + '\\n')\n"
        "    if item.id.endswith('1'):\n"
        "        raise OSError('bad manifest')\n"
        "    return Done()\n"
    )
    with opened(on_sqlite) as gate:
        batches = [gate.queue.submit("demo", "me", f"http://example.org/{each}").id for each in range(3)]
        process = start(on_sqlite, "--handler", "batch-pending=mine:split")
        until(lambda: [gate.queue.batch(each).state for each in batches[1:]] == ["reporting"] * 2, "the others")
        until(lambda: looks(on_sqlite, batches[0]) >= 2, "another look")
        until(lambda: not gate.queue.batch(batches[0]).worker, "it to be handed back")  # Before the stop, not by it.
        lines = stop(process)
        first = gate.queue.batch(batches[0])
        assert (first.state, first.message, first.worker) == (
            "pending", "the handler crashed: OSError: bad manifest", "",
        )  # fmt: skip
    pauses = [each["again_in"] for each in told(lines, "consumer.not_now")]
    assert pauses == [2.0**number for number in range(len(pauses))]


def test_pending_items_of_a_held_collection_are_held_before_they_are_processed(headgate: Headgate) -> None:
    with opened(headgate) as gate:
        fill(gate)
        batch = gate.queue.submit("demo", "me", "http://example.org/other").id
        gate.queue.set_hold("demo", reason="it is moved", by="anna")
        process = start(headgate, "--exec", "job-pending=touch ran", "--exec", "batch-pending=touch ran")
        until(lambda: (state_of(gate), gate.queue.batch(batch).state) == ("held", "held"), "both to be held")
        assert gate.queue.job(JOB).message == "collection demo is on hold, set by anna: it is moved"
        gate.queue.clear_hold("demo")
        gate.queue.release(JOB)
        until(lambda: state_of(gate) == "estimating", "the job to go on")
        stop(process)
        assert gate.queue.batch(batch).state == "held"


def test_a_paused_queue_hands_out_nothing_and_running_work_finishes(headgate: Headgate, script: Script) -> None:
    with opened(headgate) as gate:
        fill(gate, jobs=2)
        slow = script("slow", "echo $$ >pid; until test -e go; do sleep 0.05; done")
        process = start(headgate, "--exec", f"job-pending={slow}")
        read_number(headgate.folder / "pid")
        gate.queue.set_hold(reason="maintenance")
        (headgate.folder / "go").touch()
        until(lambda: counts(gate)["estimating"] == 1, "what runs to end")
        lines = stop(process)
        assert counts(gate) == {"pending": 1, "estimating": 1}
        assert len(told(lines, "queue.accept")) == 1


def looks(command: Headgate, item: str) -> int:
    path = command.folder / "looks"
    return path.read_text().splitlines().count(item) if path.exists() else 0
