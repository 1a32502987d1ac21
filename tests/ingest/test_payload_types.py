"""One job for each object, whatever the submission is."""

import pytest

from headgate import BadValue
from headgate.core.queue.model import Identifiers, NewJob, Submission
from headgate.ingest.formats import manifest
from headgate.ingest.steps.new_jobs import BATCHES, SINGLE, jobs_of, submission_type
from headgate.service.queue.checks import PAYLOAD_TYPES, TYPES

SAID = {
    "erc_who": "Everybody", "note": "n", "digest_type": "md5", "digest_value": "0" * 32, "filename": "x.checkm",
    "primary_id": "ark:13030/m5-abc", "local_id": ["l1; l2", "l1"], "notification": "a@b.org", "response_type": "xml",
}  # fmt: skip
ROWS = b"""http://h/1 | md5 | 0123456789abcdef0123456789abcdef | 7 |  | one | ark:/13030/m51 | a;b | Ann | One | 1999
http://h/2
#%eof"""


def test_every_type_of_the_service_is_known() -> None:
    assert {*BATCHES, *SINGLE} == set(TYPES)
    assert set(SINGLE.values()) == set(PAYLOAD_TYPES)
    assert {layout.payload for layouts in BATCHES.values() for layout in layouts} == set(PAYLOAD_TYPES)


@pytest.mark.parametrize("type_", SINGLE)
def test_a_payload_with_one_object_creates_one_job(type_: str) -> None:
    submission = Submission("p", "ann", "http://h/x", type_, metadata=SAID)
    assert jobs_of(submission, None, 7) == [
        NewJob(
            "http://h/x",
            SINGLE[type_],
            Identifiers("ark:/13030/m5abc", ("l1", "l2")),
            7,
            {
                "erc_who": "Everybody",
                "note": "n",
                "digest_type": "md5",
                "digest_value": "0" * 32,
                "filename": "x.checkm",
            },
        )
    ]


@pytest.mark.parametrize("type_", BATCHES)
@pytest.mark.parametrize("layout", [manifest.BATCH, manifest.CONTAINERS, manifest.SINGLE_FILES])
def test_a_batch_manifest_creates_one_job_per_row_of_the_type_in_its_head(
    type_: str, layout: manifest.ManifestLayout
) -> None:
    submission = Submission("p", "ann", "http://h/x", type_, metadata=SAID)
    data = f"#%profile | {layout.profile}\n".encode() + ROWS
    first, second = jobs_of(submission, manifest.parse(data, BATCHES[type_]))
    assert first == NewJob(
        "http://h/1",
        layout.payload,
        Identifiers("ark:/13030/m51", ("a", "b")),
        5,
        {
            "erc_who": "Ann", "erc_what": "One", "erc_when": "1999", "note": "n", "filename": "one", "size": 7,
            "digest_type": "md5", "digest_value": "0123456789abcdef0123456789abcdef",
        },
    )  # fmt: skip
    # Settings of the batch's own payload do not apply to its objects.
    assert second.settings == {"erc_who": "Everybody", "note": "n", "filename": "2"}
    assert second.identifiers == Identifiers()


@pytest.mark.parametrize("type_", BATCHES)
def test_without_a_head_the_type_of_the_submission_counts(type_: str) -> None:
    expected = {"batch-manifest": "object_manifest", "container-batch-manifest": "container"}.get(type_, "file")
    jobs = jobs_of(Submission("p", "ann", "http://h/x", type_), manifest.parse(ROWS, BATCHES[type_]))
    assert {job.payload_type for job in jobs} == {expected}


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        *((each, each) for each in TYPES),
        ("manifest", "object-manifest"), ("batchManifest", "batch-manifest"),
        ("batchManifestFile", "single-file-batch-manifest"), ("batchManifestContainer", "container-batch-manifest"),
        ("my-single-file-batch-manifest", "single-file-batch-manifest"), ("xbatch-manifest", "batch-manifest"),
    ],
)  # fmt: skip
def test_words_for_the_type_of_a_submission(word: str, expected: str) -> None:
    assert submission_type(word) == expected


def test_a_word_that_is_not_a_type_is_refused() -> None:
    with pytest.raises(BadValue, match="is not one of file, container"):
        submission_type("folder")
