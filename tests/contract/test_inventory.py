"""The inventory, on every store that keeps one: one version is one step, and a repeat of it changes nothing."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

import headgate
from headgate.core.errors import BadValue, ClaimRefused, ObjectRefused, UnknownName
from headgate.core.inventory import Delivery, Intake, InventoryFile, Message, MessageKind, Recipient, Recording, Sender
from headgate.core.logs import LogStream, LogText
from headgate.service.inventory import Inventory
from tests.contract.over_http import LEDGER_STORES, behind
from tests.contract.steps import Gates

pytestmark = pytest.mark.parametrize("kind", LEDGER_STORES)
ARK = "ark:/99999/fk4abc"
FILES = (
    InventoryFile("producer/a.txt", 3, "a" * 64, 1, {"crc32": "0123abcd", "md5": "f" * 32}),
    InventoryFile("system/mrt-erc.txt", 5, "b" * 64, 1),
)
VERSION = Recording(
    ARK, "library", "maps", 1, "ark_99999_fk4abc.v1", datetime(2026, 11, 15, tzinfo=UTC), FILES, "Ann", "A map", "1900",
    ("ark:/99999/fk4col",), ("map-1",), "jid0000000001", "bid0000000001", "demo", "me", "https://example.org/x", "file",
)  # fmt: skip
CALLBACK = Message(
    "jid0000000001.callback", MessageKind.CALLBACK, "jid0000000001", "{}", "https://example.org/hook", sender=Sender.JOB
)


@pytest.fixture
def gate(store_url: str) -> Iterator[headgate.Gate]:
    with headgate.connect(store_url) as found:
        yield found


def writing(gate: headgate.Gate) -> Inventory:
    """Where versions, intakes and messages are recorded: a service accepts none from its callers."""
    return behind(gate).inventory


def test_a_recorded_version_is_found_with_all_that_belongs_to_it(gate: headgate.Gate) -> None:
    assert writing(gate).record(VERSION, [CALLBACK])
    (found,) = gate.inventory.objects()
    assert (found.ark, found.owner, found.version, found.what) == (ARK, "library", 1, "A map")
    assert (found.collections, found.local) == (("ark:/99999/fk4col", "maps"), ("map-1",))
    assert tuple(gate.inventory.files(ARK, 1)) == FILES
    (version,) = gate.inventory.versions(ARK)
    assert (version.size, version.files, version.job) == (8, 2, "jid0000000001")
    assert gate.inventory.message(CALLBACK.id) == CALLBACK
    assert [(row.dataid, row.status) for row in gate.ledger.status(dataset="maps")] == [
        ("ark_99999_fk4abc.v1", "READY")
    ]


def test_files_are_recorded_whichever_of_them_came_with_further_digests(gate: headgate.Gate) -> None:
    for number, files in enumerate((FILES[::-1], FILES[1:]), 1):
        job, dataid = f"jid000000000{number}", f"ark_99999_fk4abc.v{number}"
        writing(gate).record(replace(VERSION, version=number, files=files, job=job, dataid=dataid))
        assert tuple(gate.inventory.files(ARK, number)) == files


def test_a_version_without_files_is_recorded(gate: headgate.Gate) -> None:
    """Objects from other tools may have one."""
    assert writing(gate).record(replace(VERSION, files=()))
    assert list(gate.inventory.files(ARK, 1)) == []
    (version,) = gate.inventory.versions(ARK)
    assert (version.size, version.files) == (0, 0)


def test_recording_the_same_again_changes_nothing(gate: headgate.Gate) -> None:
    writing(gate).record(VERSION, [CALLBACK])
    gate.inventory.delivered(CALLBACK)
    assert not writing(gate).record(VERSION, [CALLBACK])
    assert len(gate.inventory.versions(ARK)) == 1
    told = gate.inventory.message(CALLBACK.id)
    assert told is not None
    assert told.state is Delivery.DELIVERED


def test_the_newest_version_describes_the_object_also_when_an_older_one_is_recorded_late(gate: headgate.Gate) -> None:
    newer = replace(VERSION, version=2, what="A better map", job="jid0000000002", dataid="ark_99999_fk4abc.v2")
    writing(gate).record(newer)
    writing(gate).record(VERSION)
    assert [(each.version, each.what) for each in gate.inventory.objects()] == [(2, "A better map")]
    assert [each.number for each in gate.inventory.versions(ARK)] == [1, 2]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"owner": "museum", "job": "jid0000000002", "version": 2}, "its owner is not"),
        ({"job": "jid0000000002"}, "is already recorded as stored by jid0000000001"),
        ({"version": 2}, "is already recorded as ark:/99999/fk4abc v1"),
    ],
)
def test_contradictory_records_are_refused_and_nothing_is_written(
    gate: headgate.Gate, change: dict[str, object], why: str
) -> None:
    writing(gate).record(VERSION)
    with pytest.raises(ObjectRefused, match=why):
        writing(gate).record(replace(VERSION, **change), [replace(CALLBACK, id="other")])  # type: ignore[arg-type]
    assert gate.inventory.message("other") is None
    assert len(gate.inventory.versions(ARK)) == 1


def test_a_collection_that_a_job_makes_takes_no_objects_and_nothing_is_recorded(gate: headgate.Gate) -> None:
    gate.ledger.define_dataset("maps")
    gate.ledger.define_job("draw", outputs=["maps"])
    gate.ledger.claim("draw", VERSION.dataid)
    with pytest.raises(ClaimRefused):
        writing(gate).record(VERSION)
    assert gate.inventory.objects() == []
    with pytest.raises(UnknownName):
        gate.inventory.versions(ARK)


def test_one_local_id_claimed_by_many_at_once_is_one_object(gate: headgate.Gate) -> None:
    start, found = threading.Barrier(6), []

    def claim(number: int) -> None:
        start.wait()
        found.append(gate.inventory.claim_local_ids("library", ["x", "y"], f"ark:/99999/fk4{number}"))

    threads = [threading.Thread(target=claim, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6
    assert len(set(found)) == 1
    assert gate.inventory.known_local_ids("library", ["x", "y", "z"]) == {"x": found[0], "y": found[0]}
    assert gate.inventory.known_local_ids("museum", ["x"]) == {}


def test_local_ids_of_different_objects_are_refused(gate: headgate.Gate) -> None:
    gate.inventory.claim_local_ids("library", ["x"], "ark:/99999/fk41")
    gate.inventory.claim_local_ids("library", ["y"], "ark:/99999/fk42")
    with pytest.raises(ObjectRefused, match="different objects: x is ark:/99999/fk41, y is ark:/99999/fk42"):
        gate.inventory.claim_local_ids("library", ["x", "y"], "ark:/99999/fk43")


def test_an_object_that_is_removed_leaves_nothing_but_the_reason(gate: headgate.Gate) -> None:
    second = replace(VERSION, version=2, job="jid0000000002", dataid="ark_99999_fk4abc.v2")
    other = replace(VERSION, ark="ark:/99999/fk4other", local=(), job="jid0000000003", dataid="ark_99999_fk4other.v1")
    for each in (VERSION, second, other):
        writing(gate).record(each)
    assert gate.inventory.remove(ARK, [VERSION.dataid, second.dataid], reason="withdrawn", by="ann")
    assert not gate.inventory.remove(ARK, [VERSION.dataid, second.dataid], reason="withdrawn", by="ann")
    assert [each.ark for each in gate.inventory.objects()] == [other.ark]
    assert [row.dataid for row in gate.ledger.status(dataset="maps")] == [other.dataid]
    assert gate.inventory.known_local_ids("library", ["map-1"]) == {}
    assert gate.inventory.recorded(VERSION.job) is None
    told = gate.history(dataid=second.dataid)[0]
    assert (told.event, told.reason, told.client) == ("forget", "withdrawn", "ann")
    assert writing(gate).record(VERSION), "it may come again"


def test_an_object_is_removed_also_while_an_operator_works_on_its_chunk(gate: headgate.Gate) -> None:
    writing(gate).record(VERSION)
    gate.ledger.set_status("maps", VERSION.dataid, "external", "OUTPUT", "RUNNING", reason="checked by hand")
    assert gate.inventory.remove(ARK, [VERSION.dataid], reason="withdrawn", by="ann")
    assert gate.ledger.status(dataset="maps") == []


def test_the_first_intake_of_a_batch_counts(gate: headgate.Gate) -> None:
    first = Intake("bid0000000001", {"name": "demo", "limits": {"tries": 4}})
    assert writing(gate).keep_intake(first) == first
    assert writing(gate).keep_intake(Intake("bid0000000001", {"name": "other"})) == first
    writing(gate).set_problem("bid0000000001", "no end marker")
    assert gate.inventory.intake("bid0000000001") == replace(first, problem="no end marker")
    anew = Intake("bid0000000001", {"name": "other"})
    assert writing(gate).keep_intake(anew, anew=True) == anew == gate.inventory.intake("bid0000000001")
    gate.inventory.forget("bid0000000001")
    assert gate.inventory.intake("bid0000000001") is None
    writing(gate).set_problem("bid0000000001", "there is no profile")
    assert gate.inventory.intake("bid0000000001") == Intake("bid0000000001", {}, "there is no profile")


def test_a_message_waits_is_deferred_and_ends(gate: headgate.Gate) -> None:
    mail = Message("bid0000000001.report-1", MessageKind.MAIL, "bid0000000001", "From: …")
    assert writing(gate).post(mail)
    assert not writing(gate).post(replace(mail, body="another"))
    writing(gate).post(CALLBACK)
    assert list(gate.inventory.due()) == [mail], "the other one is sent by its job"
    gate.inventory.undelivered(mail, "no answer")
    assert list(gate.inventory.due()) == []
    assert [(each.tries, each.problem) for each in gate.inventory.messages("bid0000000001")] == [(1, "no answer")]
    gate.inventory.delivered(mail)
    gate.inventory.undelivered(mail, "late", for_good=True)
    assert [each.state for each in gate.inventory.messages("bid0000000001")] == [Delivery.DELIVERED]


REPORT = Message("bid0000000001.report-1", MessageKind.MAIL, "bid0000000001", "From: …", batch="bid0000000001")
HAS_IT = Recipient("ann@example.org", Delivery.DELIVERED)
REFUSED = Recipient("ben@example.org", Delivery.GIVEN_UP, "550 no such person")


def failed(gate: headgate.Gate) -> list[str]:
    return [each.id for each in gate.inventory.messages(failed=True)]


def test_a_message_that_failed_is_listed_and_its_next_try_is_kept_in_the_store(gates: Gates) -> None:
    gate = gates.open()
    writing(gate).post(REPORT)
    assert failed(gate) == []
    gate.inventory.undelivered(REPORT, "no answer")
    (found,) = gates.open().inventory.messages(failed=True)
    assert (found.state, found.tries, found.problem, found.body) == (Delivery.WAITING, 1, "no answer", "")
    assert found.since is not None
    assert found.next_try is not None
    assert 8 <= (found.next_try - found.since).total_seconds() < 60
    assert gate.faults() == []


def test_an_undeliverable_message_stays_listed_until_it_is_resent(gate: headgate.Gate) -> None:
    writing(gate).post(REPORT)
    gate.inventory.undelivered(REPORT, "550", for_good=True, recipients=(HAS_IT, REFUSED))
    gate.inventory.forget("bid0000000001")
    assert failed(gate) == [REPORT.id]
    (fault,) = gate.faults()
    assert (fault.kind, fault.item) == ("undelivered", REPORT.id)
    assert gate.repair(fault, by="ann")
    assert gate.faults() == []
    (again,) = gate.inventory.due()
    assert (again.id, again.body, again.tries, again.recipients) == (REPORT.id, REPORT.body, 0, (HAS_IT,))
    assert not gate.repair(fault, by="ann"), "it waits already"
    gate.inventory.delivered(again, (HAS_IT, replace(HAS_IT, address="ben@example.org")))
    assert (failed(gate), gate.inventory.due()) == ([], [])
    assert gate.inventory.resend(REPORT.id).recipients == (), "all have it, so all get it again"


def test_a_message_that_is_discarded_is_gone(gate: headgate.Gate) -> None:
    writing(gate).post(REPORT)
    assert gate.inventory.discard(REPORT.id, reason="the depositor has left").id == REPORT.id
    for act in (gate.inventory.resend, lambda name: gate.inventory.discard(name, reason="again")):
        with pytest.raises(UnknownName):
            act(REPORT.id)


def test_messages_are_listed_page_by_page(gate: headgate.Gate) -> None:
    names = [f"bid{number:010}.report-1" for number in range(5)]
    for name in names:
        writing(gate).post(replace(REPORT, id=name, item=name[:13]))
    first = gate.inventory.messages(limit=2)
    assert [each.id for each in first] == names[:2]
    assert [each.id for each in gate.inventory.messages(after=names[1])] == names[2:]
    assert [each.id for each in gate.inventory.messages(names[3][:13])] == [names[3]]


def test_delivered_messages_about_a_batch_are_removed_with_it(gate: headgate.Gate) -> None:
    writing(gate).post(replace(CALLBACK, batch="bid0000000001"))
    writing(gate).post(REPORT)
    gate.inventory.delivered(CALLBACK)
    gate.inventory.forget("bid0000000001")
    assert [each.id for each in gate.inventory.messages()] == [REPORT.id]


def test_a_callback_that_its_job_could_not_deliver_is_handed_to_the_messenger(gate: headgate.Gate) -> None:
    writing(gate).post(CALLBACK)
    gate.inventory.undelivered(CALLBACK, "no answer")
    assert [each.sender for each in gate.inventory.messages()] == ["messenger"]
    gate.inventory.resend(CALLBACK.id)
    assert [each.id for each in gate.inventory.due()] == [CALLBACK.id]


def test_the_log_of_a_step_is_kept_until_its_job_is_forgotten(gate: headgate.Gate) -> None:
    def write(token: int, attempt: int, step: str, text: str, *, ended: bool = True) -> None:
        texts = [LogText(LogStream.LOG, text, len(text))]
        gate.inventory.keep_log("jid0000000001", token, attempt, step, texts, ended=ended)

    def found(item: str = "jid0000000001") -> list[tuple[int, str, str, bool]]:
        return [(each.attempt, each.step, each.text, each.ended) for each in gate.inventory.logs(item)]

    write(1, 1, "pending", "done\n")
    write(2, 1, "downloading", "a\n", ended=False)
    write(2, 1, "downloading", "a\nhttps://ann:hunter2hunter2@example.org/b\n")
    write(3, 2, "downloading", "b\x1b[0m\n")
    first = (1, "downloading", "a\nhttps://ann:***@example.org/b\n", True)
    assert found() == [(2, "downloading", "b\n", True), first, (1, "pending", "done\n", True)]
    assert found("jid0000000002") == []
    with pytest.raises(BadValue):
        gate.inventory.logs("bid")
    writing(gate).forget("jid0000000001")
    assert found() == []
