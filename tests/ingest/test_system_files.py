"""The files of the system folder, and the depositor's files that ingest interprets."""

from dataclasses import fields
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import BadManifest, BadValue
from headgate.ingest.formats import anvl
from headgate.ingest.formats.descriptions import Description, read_dublin_core, read_erc
from headgate.ingest.formats.manifest import UNASSIGNED
from headgate.ingest.steps import system_files
from headgate.ingest.steps.system_files import IngestRecord, ObjectModel, read_deletions, read_embargo

ARK = "ark:/13030/m5br8stc"
values = st.text(st.characters(exclude_categories=["Cs"]), max_size=15).map(str.strip).filter(lambda t: t != UNASSIGNED)


def test_every_system_file_of_an_object() -> None:
    files = system_files.system_files(
        IngestRecord(ingest="headgate", batch="bid0000000001", job="jid0000000001", title="T", note="two\nlines"),
        ObjectModel(ARK, local_identifier="loc1"),
        Description("A", "T", "1999", {"title": ("T",)}),
        "ark:/13030/j2owner",
        ["ark:/13030/m5one", "ark:/13030/m5two"],
        ["loc1"],
    )
    assert files["mrt-owner.txt"] == b"ark:/13030/j2owner"
    assert files["mrt-membership.txt"] == b"ark:/13030/m5one\nark:/13030/m5two\n"
    assert files["mrt-mom.txt"].decode() == (
        f"primaryIdentifier:\t{ARK}\ntype:\tMRT-curatorial\nrole:\tMRT-content\naggregate:\t(:unas)\n"
        "localIdentifier:\tloc1\n"
    )
    assert read_erc(files["mrt-erc.txt"].decode()).identifiers.primary == ARK
    assert read_dublin_core(files["mrt-dc.xml"]).what == "T"
    lines = files["mrt-ingest.txt"].decode().splitlines()
    assert lines[:4] == [
        "ingest:\theadgate", "submissionDate:\t(:unas)", "batch:\tbid0000000001", "job:\tjid0000000001",
    ]  # fmt: skip
    assert "note:\ttwo%0Alines" in lines
    assert [line.partition(":")[0] for line in lines[4:12]] == [
        "userAgent", "file", "type", "profile", "collection", "storageService", "notification", "suppliedIdentifier",
    ]  # fmt: skip


@given(st.builds(IngestRecord, **dict.fromkeys(["ingest", "user_agent", "title", "note", "handlers"], values)))
def test_the_origin_of_an_object_is_read_again(record: IngestRecord) -> None:
    read = [value for _, value in anvl.read(system_files.write_record(record))]
    assert read == [getattr(record, field.name) or UNASSIGNED for field in fields(record)]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("NONE", None),
        ("none", None),
        ("2030-01-02", datetime(2030, 1, 2, tzinfo=UTC)),
        ("2030-01-02T03:04:05Z", datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)),
    ],
)
def test_an_embargo_has_an_end_date_or_is_absent(value: str, expected: datetime | None) -> None:
    assert read_embargo(f"embargoEndDate: {value}\n") == expected


@pytest.mark.parametrize(
    "text", ["", "embargoEndDate:", "embargoEndDate: soon", "end: NONE", "embargoEndDate: NONE\nx: y", "nonsense"]
)
def test_any_other_embargo_is_refused(text: str) -> None:
    with pytest.raises(BadValue):
        read_embargo(text)


def test_the_list_of_files_removed_by_an_update_is_read() -> None:
    assert read_deletions("a.txt\r\n\n sub/b.txt \na.txt\n") == ("producer/a.txt", "producer/sub/b.txt")
    assert read_deletions("") == ()
    with pytest.raises(BadManifest) as error:
        read_deletions("fine\n../x\n/etc/passwd")
    assert [line for line, _ in error.value.problems] == [2, 3]
