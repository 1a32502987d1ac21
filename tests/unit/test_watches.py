"""Watches as users write them, file names, and the files that make up a chunk."""

from typing import Any

import pytest

from headgate import BadValue
from headgate.core.ledger.watches.gathering import Gatherer
from headgate.core.ledger.watches.model import FileMark, FileWatch, OnChange, Ready, is_temporary
from headgate.core.ledger.watches.names import UnreadableName
from headgate.core.ledger.watches.parsing import parse_watch

DAYS = {"folder": "in", "pattern": "orders-{date:%Y-%m-%d}.csv"}
LANES = {"folder": "in", "pattern": "{sample}/{lane}.fastq.gz"}


def watch(**keys: Any) -> FileWatch:
    return parse_watch("orders", keys)


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({**DAYS, "patern": "x"}, "did you mean 'pattern'"),
        ({"pattern": "{day}"}, "neither folder nor prefix"),
        ({**DAYS, "prefix": "s3://b/x"}, "both folder and prefix"),
        ({"prefix": "https://b/x", "pattern": "{day}"}, "s3://bucket/folder/"),
        ({"folder": "in"}, "has no pattern"),
        ({"folder": "in", "pattern": "orders.csv"}, "no field"),
        ({"folder": "in", "pattern": "{a}{b}.csv"}, "two fields with nothing between them"),
        ({"folder": "in", "pattern": "{a}-{a}.csv"}, "twice"),
        ({"folder": "in", "pattern": "{a-b}.csv"}, "a field is a name in braces"),
        ({"folder": "in", "pattern": "{date:%Y-%x}.csv"}, "%x"),
        ({"folder": "in", "pattern": "../{a}.csv"}, "below the folder"),
        ({"folder": "in", "pattern": "{a}.part"}, "temporary"),
        ({"folder": "in", "pattern": ".spool/{a}"}, "hidden"),
        ({"folder": "in", "pattern": "{name}.csv"}, "whole name"),
        (LANES, "has no id"),
        ({**LANES, "id": "{sampel}-{lane}"}, "did you mean 'sample'"),
        ({**LANES, "id": "{sample}/{lane}"}, "has a slash"),
        ({**LANES, "id": "{sample}{lane}"}, "nothing between them"),
        ({**LANES, "id": "{sample}"}, "leaves out {lane}"),
        ({**DAYS, "id": "{date:%Y-%m}"}, "leaves out {date}"),
        ({**DAYS, "id": "{date:%Y-%m-%dT%H}"}, "finer time"),
        ({**LANES, "id": "{sample}-{lane:%Y}"}, "not a time in pattern"),
        ({**DAYS, "files": 2}, "each file is a chunk of its own"),
        ({**LANES, "id": "{sample}", "files": 2, "suffixes": ["_R1", "_R2"]}, "write one of them"),
        ({**LANES, "id": "{sample}", "marker": "{lane}.done"}, "which the id does not have"),
        ({**LANES, "id": "{sample}-{lane}", "marker": "{sample}/DONE"}, "lacks the field {lane}"),
        ({**DAYS, "marker": "{name}"}, "the file itself"),
        ({**DAYS, "marker": "orders-{date:%Y-%m-%d}.csv"}, "the file itself"),
        ({**DAYS, "marker": "orders-{date}.csv"}, "the file itself"),
        ({**LANES, "id": "{sample}", "suffixes": ["_R1.fastq.gz", "_R2.fastq.gz"]}, "leave '.fastq.gz' out of it"),
        ({**DAYS, "marker": ".{name}.done"}, "hidden"),
        ({**DAYS, "marker": "{name}.tmp"}, "temporary"),
        ({**DAYS, "marker": "../{name}"}, "below the folder"),
        ({**LANES, "id": "{sample}", "marker": ".done/{sample}"}, "hidden"),
        ({**DAYS, "settle": "1s", "ready": "whole"}, "has no effect"),
        ({**DAYS, "settle": "soon"}, "not a duration"),
        ({**DAYS, "settle": True}, "not a time"),
        ({**DAYS, "every": 0}, "not a time"),
        ({**DAYS, "ready": "stabel"}, "did you mean 'stable'"),
        ({**DAYS, "on_change": "resubmit"}, "note, redo, ignore"),
        ({"prefix": "s3://b/in", "pattern": "{a}", "ready": "stable"}, "for folders"),
        ({**DAYS, "suffixes": ["a", "a"]}, "twice"),
        ({**DAYS, "files": -1}, "whole number"),
    ],
)
def test_a_watch_that_cannot_work_is_refused_with_its_key(keys: dict[str, Any], why: str) -> None:
    with pytest.raises(BadValue) as caught:
        watch(**keys)
    assert "orders" in str(caught.value)
    assert why in str(caught.value)


def test_omitted_keys_have_their_defaults() -> None:
    found = watch(**DAYS)
    assert (found.id, found.ready, found.settle, found.every) == ("{date}", Ready.STABLE, 10.0, 2.0)
    assert (found.on_change, found.quiet_after) == (OnChange.NOTE, None)
    bucket = watch(prefix="s3://shelf/in", pattern="{a}.csv", quiet_after="26h")
    assert (bucket.source, bucket.ready, bucket.every) == ("s3://shelf/in/", Ready.WHOLE, 30.0)
    assert bucket.quiet_after == 26 * 3600


def meaning(found: FileWatch, name: str) -> str | None:
    read = found.chunk_of(name)
    return None if read is None else read[0]


def test_names_become_data_ids() -> None:
    assert meaning(watch(**DAYS), "orders-2026-11-14.csv") == "2026-11-14"
    assert meaning(watch(**DAYS), "other-2026-11-14.csv") is None
    compact = watch(folder="in", pattern="x-{day:%Y%m%d}.csv", id="{day:%Y-%m-%d}")
    assert meaning(compact, "x-20261114.csv") == "2026-11-14"
    lanes = watch(**LANES, id="{sample}-{lane}")
    assert meaning(lanes, "NA12/L001.fastq.gz") == "NA12-L001"
    assert meaning(lanes, "a/b/L001.fastq.gz") is None, "a field has no slash"
    pairs = watch(folder="in", pattern="{sample}", suffixes=["_R1.gz", "_R2.gz"])
    assert [meaning(pairs, f"NA_12{end}") for end in ("_R1.gz", "_R2.gz", ".txt")] == ["NA_12", "NA_12", None]


@pytest.mark.parametrize(
    ("found", "name", "why"),
    [
        (watch(**DAYS), "orders-2026-02-30.csv", "not a time"),
        (watch(folder="in", pattern="{a}-{b}.csv", id="{a}.{b}"), "x-y-z.csv", "two ways"),
        (watch(**LANES, id="{sample}-{lane}"), "a-b/c.fastq.gz", "two ways"),
        (watch(folder="in", pattern="{a}"), "x" * 300, "255"),
    ],
)
def test_names_that_match_without_naming_a_chunk_are_reported(found: FileWatch, name: str, why: str) -> None:
    with pytest.raises(UnreadableName, match=why):
        found.chunk_of(name)


@pytest.mark.parametrize("name", [".a.csv", "a.csv.part", "x/.b/c.csv", "a.TMP", "a.csv~", "a.filepart"])
def test_hidden_and_temporary_names_are_never_counted(name: str) -> None:
    assert is_temporary(name)


def ready(
    found: FileWatch, *names: str, news: tuple[str, ...] | None = None, marks: dict[str, int] | None = None
) -> Any:
    """The data ids that are ready, and how many files wait."""
    files = {name: FileMark(name, 1, (marks or {}).get(name, 0)) for name in names}
    result = Gatherer(found).gather(files, lambda mark: news is None or mark.name in news, lambda _mark: True)
    return [each.dataid for each in result.ready], result.waiting


def test_several_files_make_one_chunk_when_all_have_arrived() -> None:
    counted = watch(**LANES, id="{sample}", files=2)
    assert ready(counted, "A/1.fastq.gz", "A/2.fastq.gz", "B/1.fastq.gz") == (["A"], 1)
    pairs = watch(folder="in", pattern="{sample}", suffixes=["_R1.gz", "_R2.gz"])
    assert ready(pairs, "A_R1.gz", "A_R2.gz", "B_R1.gz", "B_R1.gz.part") == (["A"], 1)
    marked = watch(**LANES, id="{sample}", marker="{sample}/DONE")
    assert ready(marked, "A/1.fastq.gz", "A/DONE", "B/1.fastq.gz", "B/2.fastq.gz") == (["A"], 2)


def test_a_file_counts_with_its_marker_and_not_with_an_older_one() -> None:
    marked = watch(folder="in", pattern="{x}", ready="marker")
    assert ready(marked, "a", "a.done", "b") == (["a"], 1)
    assert ready(marked, "a", "a.done", marks={"a": 2, "a.done": 1}) == ([], 1), "the marker is of an earlier delivery"


@pytest.mark.parametrize(
    ("keys", "depth"),
    [
        (DAYS, 0),
        ({**LANES, "id": "{sample}-{lane}"}, 1),
        ({**DAYS, "marker": "done/{name}"}, 1),
        ({**LANES, "id": "{sample}-{lane}", "marker": "done/{name}.ok"}, 2),
        ({**LANES, "id": "{sample}", "marker": "{sample}.ok"}, 1),
        ({**LANES, "id": "{sample}", "marker": "done/of/{sample}"}, 2),
    ],
)
def test_folders_are_listed_to_the_depth_of_files_and_markers(keys: dict[str, Any], depth: int) -> None:
    assert watch(**keys).depth == depth


def test_a_name_that_cannot_be_kept_is_reported_only_if_it_matches() -> None:
    found = watch(folder="in", pattern="{x}.csv")
    files = {name: FileMark(name, 1, 0) for name in ("a\nb.txt", "caf\udce9.csv", "x" * 2000)}
    strange = Gatherer(found).gather(files, lambda _mark: True, lambda _mark: True).strange
    assert list(strange) == ["caf\udce9.csv"]
    assert "not printable" in strange["caf\udce9.csv"]


def test_chunks_without_news_are_left_alone() -> None:
    assert ready(watch(folder="in", pattern="{x}"), "a", "b", news=("b",)) == (["b"], 0)
