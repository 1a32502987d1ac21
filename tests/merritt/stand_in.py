"""Merritt's programs for a page of the docs: one submits a file, and its consumers work on one state each.

stand_in CONFIGURATION submit URL PROFILE
stand_in CONFIGURATION consume STATE
"""

import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from tests.merritt.other_side import NEXT, OtherSide


def submit(side: OtherSide, url: str, profile: str) -> None:
    side.init_nodes()
    said = {"profile": profile, "submitter": "bob", "filename": url, "type": "file", "update": False}
    batch = side.create_batch(**said)
    side.lock(f"/batches/{batch}")
    side.create(f"/batches/{batch}/states")
    job = side.create_job(batch, said, identifiers={"primary_id": "ark:/99999/fk4x", "local_id": []})
    side.set_batch(batch, "Reporting")
    side.unlock(f"/batches/{batch}")
    sys.stdout.write(f"{batch} {job} Pending\n")


def consume(side: OtherSide, state: str) -> None:
    job = side.take_job(state)
    if job is None:
        sys.stdout.write(f"no job is {state}\n")
        return
    side.set_job(job, NEXT[state], "Success")
    side.unlock(f"/jobs/{job}")
    sys.stdout.write(f"{job} {side.job_status(job)}\n")


ACTS: dict[str, Callable[..., None]] = {"submit": submit, "consume": consume}


def main(configuration: str, act: str, *words: str) -> None:
    url = urlsplit(tomllib.loads(Path(configuration).read_text())["coordination_url"])
    side = OtherSide(url.netloc, url.path.rstrip("/"))
    try:
        ACTS[act](side, *words)
    finally:
        side.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
