"""The trees of the Merritt queue and of Merritt's library for each step of a batch, written by hand.

NOW stands for a time in the form of the spelling; LOCK for an ephemeral node; REF for an empty reference.
"""

from typing import Any

NOW, LOCK, REF = "<now>", "<ephemeral>", ""

Tree = dict[str, Any]

B, J1, J2 = "bid0000000000", "jid0000000001", "jid0000000002"
URL = "https://example.org/payload.checkm"

#: The message of a batch, and of a job, when no reason was given.
BATCH_SAYS = {
    "pending": "A payload was submitted; nothing has been fetched yet.",
    "processing": "All its jobs have been created.",
    "reporting": "Its last job has completed or failed.",
    "completed": "The depositor was notified: all jobs completed.",
    "failed": "The depositor was notified of the failures.",
}
JOB_SAYS = {
    "pending": "The owner of its batch created it.",
    "estimating": "Its payload is valid; its size is determined next.",
    "provisioning": "Its size is known, or cannot be determined.",
    "downloading": "There is enough space for it.",
    "processing": "All its files are downloaded and match their checksums.",
    "storing": "It has an identifier and is ready to be stored.",
    "recording": "It has an identifier and is stored.",
    "notify": "It is recorded in the inventory; notifications are next.",
    "completed": "All registered recipients were notified.",
}

# ---------------------------------------------------------------- design

DESIGN_STATES = (
    "pending", "held", "estimating", "provisioning", "downloading", "processing", "recording", "notify", "completed",
    "failed",
)  # fmt: skip
DESIGN_EMPTY: Tree = {
    "/batches": REF, "/jobs": REF, "/jobs/states": REF, **{f"/jobs/states/{state}": REF for state in DESIGN_STATES},
}  # fmt: skip


def design_batch(status: str, message: str | None = None) -> Tree:
    return {
        f"/batches/{B}": REF,
        f"/batches/{B}/submission": {
            "profile_name": "demo", "submitter": "ann", "payload_url": URL, "erc_what": "title", "erc_who": "author",
            "erc_when": None, "erc_where": None, "type": "batch-manifest", "submission_mode": "add",
        },
        f"/batches/{B}/status": {
            "status": status, "last_modified": NOW, "message": message or BATCH_SAYS[status.lower()],
        },
    }  # fmt: skip


def design_folders(**refs: list[str]) -> Tree:
    tree: Tree = {f"/batches/{B}/states": REF}
    for folder in ("batch-processing", "batch-failed", "batch-completed"):
        tree[f"/batches/{B}/states/{folder}"] = REF
        tree |= {f"/batches/{B}/states/{folder}/{job}": REF for job in refs.get(folder[6:], [])}
    return tree


def design_job(
    job: str, status: str, good: str | None, priority: int = 5, *, retries: int = 0, message: str | None = None,
    primary: str | None = None, space: str | None = None,
) -> Tree:  # fmt: skip
    number = int(job[3:])
    tree: Tree = {
        f"/jobs/{job}": REF,
        f"/jobs/{job}/configuration": {
            "batch_id": B, "profile_name": "demo", "submitter": "ann",
            "payload_url": f"https://example.org/file{number}.checkm", "payload_type": "object_manifest",
            "response_type": None, "submission_mode": "add", "working_dir": f"/zfs/queue/{B}/{job}",
        },
        f"/jobs/{job}/identifiers": {"primary": primary, "local_id": [f"loc{number}"]},
        f"/jobs/{job}/status": {
            "status": status, "last_successful_status": good, "last_modification_date": NOW,
            "retry_count": retries, "message": message or JOB_SAYS[status],
        },
        f"/jobs/{job}/priority": str(priority),
        f"/jobs/states/{status}/{priority:02d}-{job}": REF,
    }  # fmt: skip
    return tree | ({} if space is None else {f"/jobs/{job}/space_needed": space})


# ---------------------------------------------------------------- mrt-zk

MERRITT_STATES = (
    "pending", "held", "estimating", "provisioning", "downloading", "processing", "storing", "recording", "notify",
    "completed", "failed", "deleted",
)  # fmt: skip
MERRITT_EMPTY: Tree = {
    "/batches": None, "/batch-uuids": None, "/jobs": None, "/jobs/states": None,
    "/locks": None, "/locks/queue": None, "/locks/collections": None,
    "/locks/storage": None, "/locks/inventory": None, "/locks/localid": None,
    **{f"/jobs/states/{state}": None for state in MERRITT_STATES},
}  # fmt: skip
UUID = "bid-11111111-2222-3333-4444-555555555555"
#: Stands for a new one.
JOB_UUID = "<jid-uuid>"


def merritt_batch(status: str, message: str | None = None) -> Tree:
    return {
        f"/batch-uuids/{UUID}": B,
        f"/batches/{B}": None,
        f"/batches/{B}/submission": {
            "batchID": UUID, "profile": "demo", "submitter": "ann", "filename": URL, "title": "title",
            "creator": "author", "type": "batch-manifest", "update": False,
        },
        f"/batches/{B}/status": {
            "status": status, "last_modified": NOW, "message": message or BATCH_SAYS[status.lower()],
        },
    }  # fmt: skip


def merritt_folders(*empty: str, **refs: list[str]) -> Tree:
    """`empty`: folders that exist in addition to those of jobs; Merritt creates each for its first job."""
    tree: Tree = {f"/batches/{B}/states": None}
    for folder in ("processing", *empty, *refs):
        tree[f"/batches/{B}/states/batch-{folder}"] = None
    for folder, jobs in refs.items():
        tree |= {f"/batches/{B}/states/batch-{folder}/{job}": None for job in jobs}
    return tree


def merritt_job(
    job: str, status: str, good: str | None, priority: int = 5, *, retries: int = 0, message: str | None = None,
    primary: str = "", space: str = "0",
) -> Tree:  # fmt: skip
    number = int(job[3:])
    return {
        f"/jobs/{job}": None,
        f"/jobs/{job}/bid": B,
        f"/jobs/{job}/configuration": {
            "batchID": UUID, "jobID": JOB_UUID, "profile": "demo", "submitter": "ann",
            "filename": f"https://example.org/file{number}.checkm", "type": "manifest", "update": False,
            "localID": f"loc{number}",
        },
        f"/jobs/{job}/identifiers": {"primary_id": primary, "local_id": [f"loc{number}"]},
        f"/jobs/{job}/status": {
            "status": status, "last_successful_status": good, "last_modified": NOW, "retry_count": retries,
            "message": message or JOB_SAYS[status.lower()],
        },
        f"/jobs/{job}/priority": str(priority),
        f"/jobs/{job}/space_needed": space,
        f"/jobs/states/{status.lower()}/{priority:02d}-{job}": None,
    }  # fmt: skip
