"""An independent check of a tree of batches and jobs: everything that is misplaced, by the public descriptions."""

import re
from collections import defaultdict

from tests.merritt.other_side import FOLDERS, OtherSide


def orphans(side: OtherSide) -> list[str]:
    """The nodes that belong to no job or batch, and the jobs and batches that lack one."""
    found: list[str] = []
    batches, jobs = side.names("/batches"), [name for name in side.names("/jobs") if name != "states"]
    entries, references = _entries(side), _references(side, batches)
    for job in jobs:
        status = side.job_status(job)
        right = f"/jobs/states/{status.lower()}/{int(side.text(f'/jobs/{job}/priority')):02d}-{job}"
        folder = f"/batches/{side.text(f'/jobs/{job}/bid')}/states/{FOLDERS.get(status, 'batch-processing')}"
        found += [] if entries.pop(job, []) == [right] else [f"entries of {job}"]
        found += [] if references.pop(job, []) == [f"{folder}/{job}"] else [f"references to {job}"]
        found += [f"/jobs/{job}/lock"] if side.exists(f"/jobs/{job}/lock") else []
    found += [path for paths in (*entries.values(), *references.values()) for path in paths]
    for batch in batches:
        found += [f"/batches/{batch}/lock"] if side.exists(f"/batches/{batch}/lock") else []
        uuid = side.content(f"/batches/{batch}/submission")["batchID"]
        found += [] if side.text(f"/batch-uuids/{uuid}") == batch else [f"/batch-uuids/{uuid}"]
    found += [
        f"/batch-uuids/{name}"
        for name in side.names("/batch-uuids")
        if side.text(f"/batch-uuids/{name}") not in batches
    ]
    found += [
        f"/locks/{kind}/{name}" for kind in ("storage", "inventory", "localid") for name in side.names(f"/locks/{kind}")
    ]
    own = "/headgate/queue"
    for folder in ("batches", "jobs", "owners", "takings"):
        found += [f"{own}/{folder}/{name}" for name in side.names(f"{own}/{folder}") if name not in (*batches, *jobs)]
    found += [f"{own}/objects/{name}" for name in side.names(f"{own}/objects")]
    return found


def _entries(side: OtherSide) -> dict[str, list[str]]:
    found = defaultdict(list)
    for state in side.names("/jobs/states"):
        for name in side.names(f"/jobs/states/{state}"):
            job = re.sub("^[0-9]{2}-", "", name)
            found[job].append(f"/jobs/states/{state}/{name}")
    return found


def _references(side: OtherSide, batches: list[str]) -> dict[str, list[str]]:
    found = defaultdict(list)
    for batch in batches:
        for folder in side.names(f"/batches/{batch}/states"):
            for job in side.names(f"/batches/{batch}/states/{folder}"):
                found[job].append(f"/batches/{batch}/states/{folder}/{job}")
    return found
