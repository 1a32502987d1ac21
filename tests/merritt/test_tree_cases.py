"""The tree after each operation of the queue, node by node, with expectations written from its public descriptions.

Each case is run by Headgate, by a stand-in for Merritt's programs, and, where no lock stays, by both in turn. Most have
the names under which Merritt's library describes its trees.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from headgate import Gate
from headgate.core.queue.model import Identifiers
from tests.merritt.other_side import OtherSide
from tests.merritt.sides import (
    INVENTORY,
    LOCAL_IDS,
    PRIMARY_ID,
    STORE,
    SUBMITTED,
    Both,
    Ours,
    Side,
    Theirs,
)
from tests.merritt.trees import BATCH_NAME, EPHEMERAL, JOB_NAME, NOW, Tree, tree_of, uuid_of, with_folders

BATCH, SECOND = "bid0000000000", "bid0000000001"
J1, J2, J3 = (f"jid{number:010d}" for number in (1, 2, 3))
STATES = ("pending", "estimating", "provisioning", "downloading", "processing", "storing", "recording", "notify")
#: The last successful step of a job in a state, as it is written.
GOOD = dict(zip((*STATES[1:], "completed"), map(str.capitalize, STATES), strict=True))
FOLDERS = {"completed": "batch-completed", "failed": "batch-failed", "deleted": "batch-deleted"}


# ---------------------------------------------------------------- expectations


def batch(status: str, batch_id: str = BATCH) -> Tree:
    return {
        uuid_of(batch_id): batch_id,
        f"/batches/{batch_id}/submission": {"batchID": BATCH_NAME, **SUBMITTED},
        f"/batches/{batch_id}/status": {"status": status, "last_modified": NOW},
    }


def folder(name: str) -> Tree:
    return {f"/batches/{BATCH}/states/batch-{name}": None}


def job(
    job_id: str, state: str, good: str | None = None, *, priority: int = 5, retries: int = 0, space: int = 0,
    said: dict[str, Any] | None = None, primary: str = "", local: tuple[str, ...] = (), **nodes: dict[str, Any],
) -> Tree:  # fmt: skip
    """A job in one batch. `said`: further keys of its configuration. `nodes`: further nodes."""
    return {
        f"/jobs/{job_id}/bid": BATCH,
        f"/jobs/{job_id}/configuration": {
            "batchID": BATCH_NAME, "jobID": JOB_NAME, **SUBMITTED, **(said or {}),
        },
        f"/jobs/{job_id}/identifiers": {"primary_id": primary, "local_id": list(local)},
        f"/jobs/{job_id}/priority": str(priority),
        f"/jobs/{job_id}/space_needed": str(space),
        f"/jobs/{job_id}/status": {
            "status": state.capitalize(), "last_successful_status": good, "last_modified": NOW, "retry_count": retries,
        },
        **{f"/jobs/{job_id}/{name}": content for name, content in nodes.items()},
        f"/jobs/states/{state}/{priority:02d}-{job_id}": None,
        f"/batches/{BATCH}/states/{FOLDERS.get(state, 'batch-processing')}/{job_id}": None,
    }  # fmt: skip


def report(failed: list[str], successful: list[str]) -> Tree:
    content = {"last_modified": NOW, "failed_jobs": failed, "successful_jobs": successful}
    return {f"/batches/{BATCH}/status-report": content}


def locked(path: str) -> Tree:
    return {f"{path}/lock": EPHEMERAL}


# ---------------------------------------------------------------- operations


def submit_and_fill(side: Side, *jobs: dict[str, Any], end: bool = True) -> None:
    side.submit()
    side.fill(*(jobs or ({},)), end=end)


def advance(side: Side, state: str, **changes: Any) -> None:
    """The first job goes from pending to a state."""
    for step in STATES[: STATES.index(state) if state in STATES else len(STATES)]:
        side.step(step, **(changes if step == "processing" else {}))


def in_state(side: Side, state: str, **changes: Any) -> None:
    submit_and_fill(side)
    advance(side, state, **changes)


def complete(side: Side) -> None:
    in_state(side, "completed")


def fail_in(side: Side, state: str) -> None:
    in_state(side, state)
    side.fail(state)


def end_failed_batch(side: Side) -> None:
    fail_in(side, "downloading")
    assert side.report() == BATCH


def recover(side: Side) -> None:
    end_failed_batch(side)
    side.resume(J1)
    for state in STATES[STATES.index("downloading") :]:
        side.step(state)
    side.report_again(BATCH)
    assert side.report() == BATCH


def delete_failed_job(side: Side) -> None:
    submit_and_fill(side, {}, {})
    side.fail("pending")
    side.delete(J1)


def end_and_clean(side: Side) -> None:
    complete(side)
    side.report()
    side.clean()


def delete_and_clean(side: Side) -> None:
    end_failed_batch(side)
    side.delete(BATCH)
    side.clean()


def prepare_storing(side: Side) -> None:
    in_state(
        side, "storing", configuration={"store": STORE, "inventory": INVENTORY},
        identifiers=Identifiers(PRIMARY_ID, LOCAL_IDS),
    )  # fmt: skip


def take_to_store(side: Side) -> None:
    prepare_storing(side)
    side.take("storing")


@dataclass(frozen=True)
class Case:
    """An operation, and the nodes that it leaves in addition to those of an empty queue."""

    act: Callable[[Side], object]
    tree: Tree = field(default_factory=dict)
    #: Nodes that only Headgate writes, or that only Merritt writes instead.
    ours: Tree = field(default_factory=dict)
    theirs: Tree = field(default_factory=dict)
    #: A lock stays, which only its owner can use.
    locks: bool = False


def then(*acts: Callable[[Side], object]) -> Callable[[Side], object]:
    """These, one after another."""
    return lambda side: [act(side) for act in acts]


#: The side whose data the job was created with.
IDENTIFIED = {"identifiers": Identifiers(PRIMARY_ID, LOCAL_IDS)}
IDENTIFIED_SAID = {"objectID": PRIMARY_ID, "localID": ";".join(LOCAL_IDS)}
ERC = {"erc_who": "i", "erc_what": "j", "erc_when": "k"}
READY = batch("Processing") | folder("processing")
PREPARED = job(
    J1, "storing", "Processing", primary=PRIMARY_ID, local=LOCAL_IDS, store=STORE, inventory=INVENTORY
)  # fmt: skip
DONE = batch("Processing") | folder("processing") | job(J1, "completed", "Notify")
FAILED = folder("processing") | job(J1, "failed", "Provisioning")

CASES: dict[str, Case] = {
    "create_batch": Case(lambda side: side.submit(), batch("Pending")),
    "create_and_load_batch": Case(lambda side: side.read(side.submit()), batch("Pending")),
    "load_non_existent_batch": Case(lambda side: side.read(BATCH)),
    "find_batch_by_uuid": Case(lambda side: side.submit(), batch("Pending")),
    "batch_with_unreleased_lock": Case(
        # Merritt sets the state with the lock, Headgate when all jobs exist.
        then(lambda side: side.submit(), lambda side: side.take_batch()),
        batch("Pending") | locked(f"/batches/{BATCH}"),
        theirs=batch("Processing") | {f"/batches/{BATCH}/states": None},
        locks=True,
    ),
    "batch_with_lock_unlock": Case(lambda side: side.touch_batch(side.submit()), batch("Pending")),
    "batch_acquire": Case(
        then(
            lambda side: side.submit(), lambda side: side.submit(),
            lambda side: side.take_batch(), lambda side: side.take_batch(),
        ),
        batch("Pending") | batch("Pending", SECOND) | locked(f"/batches/{BATCH}") | locked(f"/batches/{SECOND}"),
        theirs={
            **batch("Processing"), **batch("Processing", SECOND),
            f"/batches/{BATCH}/states": None, f"/batches/{SECOND}/states": None,
        },
        locks=True,
    ),
    "create_job": Case(
        lambda side: submit_and_fill(side, end=False),
        batch("Pending") | locked(f"/batches/{BATCH}") | job(J1, "pending"),
        theirs=batch("Processing"),
        locks=True,
    ),
    "modify_batch_state": Case(submit_and_fill, READY | job(J1, "pending")),
    "create_job_state_change": Case(
        lambda side: in_state(side, "estimating"), READY | job(J1, "estimating", "Pending")
    ),
    "acquire_pending_job": Case(
        then(submit_and_fill, lambda side: side.take("pending")),
        READY | job(J1, "pending") | locked(f"/jobs/{J1}"), locks=True,
    ),
    "acquire_lowest_priority_job": Case(
        then(
            lambda side: submit_and_fill(side, {"priority": 5}, {"priority": 2}, {"priority": 5}),
            lambda side: side.step("pending"),
        ),
        READY | job(J1, "pending") | job(J2, "estimating", "Pending", priority=2) | job(J3, "pending"),
    ),
    "job_with_another_priority": Case(
        then(
            submit_and_fill, lambda side: side.step("pending"),
            lambda side: side.step("estimating", space_needed=7, priority=15),
        ),
        READY | job(J1, "provisioning", "Estimating", priority=15, space=7),
    ),
    "job_happy_path": Case(
        then(lambda side: submit_and_fill(side, {"priority": 1}, {}), partial(advance, state="completed")),
        batch("Processing") | job(J1, "completed", "Notify", priority=1) | job(J2, "pending"),
    ),
    "batch_happy_path": Case(
        then(complete, lambda side: side.report()), DONE | batch("Completed"), ours=report([], [J1])
    ),
    "batch_failure": Case(end_failed_batch, batch("Failed") | FAILED, ours=report([J1], [])),
    "batch_failure_deleted": Case(
        then(end_failed_batch, lambda side: side.delete(BATCH)), batch("Deleted") | FAILED, ours=report([J1], [])
    ),
    "batch_recovery": Case(
        recover, DONE | folder("failed") | batch("Completed") | job(J1, "completed", "Notify", retries=1),
        ours=report([], [J1]),
    ),
    "job_deleted": Case(
        delete_failed_job, READY | folder("failed") | job(J1, "deleted") | job(J2, "pending"),
        ours=job(J1, "deleted", "Pending"),
    ),
    "job_happy_path_with_delete": Case(
        then(delete_failed_job, lambda side: side.clean_job(J1)),
        READY | folder("failed") | folder("deleted") | job(J2, "pending"),
    ),
    "batch_happy_path_with_delete_completed": Case(end_and_clean),
    "batch_happy_path_with_delete": Case(delete_and_clean),
    "job_create_config": Case(
        lambda side: submit_and_fill(side, {"settings": {"note": "a note"}}),
        READY | job(J1, "pending", said={"note": "a note"}),
    ),
    "job_create_config_ident": Case(
        lambda side: submit_and_fill(side, IDENTIFIED),
        READY | job(J1, "pending", said=IDENTIFIED_SAID, primary=PRIMARY_ID, local=LOCAL_IDS),
    ),
    "job_create_config_ident_metadata": Case(
        lambda side: submit_and_fill(side, {**IDENTIFIED, "settings": {**ERC, "erc_where": "l"}}),
        READY | job(
            J1, "pending", said={**IDENTIFIED_SAID, "creator": "i", "title": "j", "date": "k"},
            primary=PRIMARY_ID, local=LOCAL_IDS, metadata={**ERC, "erc_where": "l"},
        ),
    ),
    "job_held": Case(then(submit_and_fill, lambda side: side.hold(J1)), READY | job(J1, "held", "Pending")),
    "job_prepared_for_services": Case(prepare_storing, READY | PREPARED),
    "lock_store": Case(
        # Merritt's library has it with its session, its services without one; Headgate does the same as the services.
        take_to_store,
        READY | PREPARED | locked(f"/jobs/{J1}") | {"/locks/storage/ark_99999_fk4x": None},
        theirs={"/locks/storage/ark_99999_fk4x": EPHEMERAL},
        locks=True,
    ),
    "lock_inventory": Case(
        then(prepare_storing, lambda side: side.step("storing"), lambda side: side.take("recording")),
        READY | locked(f"/jobs/{J1}") | {"/locks/inventory/ark_99999_fk4x": EPHEMERAL} | job(
            J1, "recording", "Storing", primary=PRIMARY_ID, local=LOCAL_IDS, store=STORE, inventory=INVENTORY
        ),
        locks=True,
    ),
    "locks_of_objects_released": Case(
        then(prepare_storing, lambda side: side.step("storing"), lambda side: side.step("recording")),
        READY | job(
            J1, "notify", "Recording", primary=PRIMARY_ID, local=LOCAL_IDS, store=STORE, inventory=INVENTORY
        ),
    ),
    "lock_ingest": Case(lambda side: side.lock(), {"/locks/queue/ingest": None}),
    "lock_collection": Case(
        lambda side: side.lock("foo", "bar"), {"/locks/collections/bar": None, "/locks/collections/foo": None}
    ),
}  # fmt: skip
#: A job fails in each state that has such a row, is resumed in each, and otherwise stays where it was.
for _state in ("pending", "downloading", "processing", "storing", "recording", "notify"):
    _fail, _before = partial(fail_in, state=_state), GOOD.get(_state)
    CASES[f"job_failed_in_{_state}"] = Case(
        _fail, READY | job(J1, "failed", _before),
        ours={} if _before else job(J1, "failed", "Pending"),
    )  # fmt: skip
    if _state != "pending":
        CASES[f"job_resumed_in_{_state}"] = Case(
            then(_fail, lambda side: side.resume(J1)),
            READY | folder("failed") | job(J1, _state, _before, retries=1),
        )  # fmt: skip


@pytest.fixture
def sides(gate: Gate, other: OtherSide) -> dict[str, Side]:
    ours, theirs = Ours(gate), Theirs(other)
    return {"ours": ours, "theirs": theirs, "both": Both(ours, theirs)}


ACTORS = [(name, who) for name, case in CASES.items() for who in ("ours", "theirs", "both")
          if not (case.locks and who == "both")]  # fmt: skip


@pytest.mark.parametrize(("name", "who"), ACTORS)
def test_the_tree_matches_its_description(
    sides: dict[str, Side], gate: Gate, other: OtherSide, name: str, who: str
) -> None:
    case, before = CASES[name], tree_of(other)
    case.act(sides[who])
    found = tree_of(other)
    here = {"ours": case.ours, "theirs": case.theirs}
    wanted = with_folders(before | case.tree | here.get(who, {}))
    if who == "both" and found != wanted:  # It was Headgate's turn where the two differ.
        wanted |= case.ours
    assert found == wanted
    # The only nodes that Merritt leaves of a batch are Headgate's own data about it.
    for fault in gate.queue.faults():
        assert (fault.kind, who == "both") == ("stray-node", True)
        assert gate.queue.repair(fault)
    assert gate.queue.faults() == []
    assert tree_of(other) == found
