"""Mistakes of depositors and servers: each ends in a defined state with an explanation, and nothing of it is stored."""

from __future__ import annotations

import hashlib
import io
import stat
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from headgate.core.queue.model import Batch
from headgate.gate import Gate
from tests.ingest import origin as acts
from tests.ingest.site import Site, checkm, ended, running
from tests.ingest.test_unpacking import lying_zip, patched_zip, pax_sparse
from tests.waiting import until

GOOD = hashlib.sha256(b"good").hexdigest()


@dataclass(frozen=True)
class Case:
    """A submission, and its outcome."""

    payload: bytes
    #: The step at which a resume would continue; None: submit it again. Of a batch without jobs: "no job".
    after: str | None
    #: A part of the message to the depositor.
    told: str
    type: str = "object-manifest"
    name: str = "payload"
    how: dict[str, Any] = field(default_factory=dict)
    profile: str = "demo"


def rows(*lines: str) -> bytes:
    return checkm("mrt-ingest-manifest", list(lines))


def batch_of(*lines: str) -> bytes:
    return checkm("mrt-batch-manifest", list(lines))


def packed(**members: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "/").replace("_", "."), content)
    return out.getvalue()


def link() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        info = zipfile.ZipInfo("link")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, "/etc/passwd")
    return out.getvalue()


def cases(url: Callable[[str], str]) -> dict[str, Case]:
    """Every mistake, by a short name; `url` returns the address of a path of the origin."""
    row = f"{url('/good')} | sha-256 | {GOOD} | 4 |  | a.txt"
    return {**in_batches(url("/good"), row), **in_manifests(url("/good"), row), **in_payloads(url, row)}


def in_batches(good: str, row: str) -> dict[str, Case]:
    batch: dict[str, Any] = {"type": "batch-manifest"}
    return {
        "batch without an end": Case(batch_of(good).removesuffix(b"#%eof"), "no job", "#%eof", **batch),
        "batch without rows": Case(batch_of(), "no job", "it has no entries", **batch),
        "batch of another kind": Case(rows(row), "no job", "its profile is", **batch),
        "batch in another encoding": Case(batch_of(good).replace(b"good", b"g\xff"), "no job", "UTF-8", **batch),
        "batch with another digest": Case(
            batch_of(good), "no job", "expected md5", how={"digest_type": "md5", "digest_value": "0" * 32}, **batch
        ),
        "batch of files from elsewhere": Case(
            batch_of("https://elsewhere.example.org/x"), "no job", "https is not one of the profile's schemes", **batch
        ),
    }  # fmt: skip


def in_manifests(good: str, row: str) -> dict[str, Case]:
    return {
        "no end": Case(rows(row).removesuffix(b"#%eof"), None, "#%eof"),
        "path trick": Case(rows(row.replace("a.txt", "../a.txt")), None, "line 3: "),
        "absolute path": Case(rows(row.replace("a.txt", "/etc/passwd")), None, "line 3: "),
        "look-alike": Case(rows(row.replace("a.txt", "a\u2215b")), None, "line 3: "),
        "zero byte": Case(rows(row.replace("a.txt", "a\0b")), None, "line 3: "),
        "hidden mark": Case(rows(row.replace("a.txt", "a\u202etxt")), None, "line 3: "),
        "twice but for its spelling": Case(
            rows(row.replace("a.txt", "caf\u00e9.txt"), row.replace("a.txt", "cafe\u0301.txt")), None, "line 4: "
        ),
        "a size that is none": Case(rows(row.replace("| 4 |", "| four |")), None, "line 3: "),
        "columns in another order": Case(rows(f"a.txt | {good} | sha-256 | {GOOD}"), None, "line 3: "),
        "too large": Case(rows(row, "#" * 100_000), None, "is larger than 50,000 bytes"),
        "another encoding": Case(rows(row).replace(b"a.txt", b"\xe4.txt"), None, "UTF-8"),
        "twice": Case(rows(row, row), None, "line 4: "),
        "unknown digest": Case(rows(row.replace("sha-256", "sha-257")), None, "sha257"),
        "file of the machine": Case(rows("file:///etc/passwd |  |  |  |  | a.txt"), None, "file is not one of"),
    }  # fmt: skip


def in_payloads(url: Callable[[str], str], row: str) -> dict[str, Case]:
    container: dict[str, Any] = {"type": "container", "name": "payload.zip"}
    erc = f"{url('/latin1')} |  |  |  |  | mrt-erc.txt"
    return {
        "wrong bytes": Case(rows(row.replace(GOOD, "0" * 64)), "provisioning", "checksum mismatch: expected sha256"),
        "wrong size": Case(rows(row.replace("| 4 |", "| 5 |")), "provisioning", "it has 4 bytes; expected 5"),
        "not there": Case(rows(f"{url('/none')} |  |  |  |  | a.txt"), "provisioning", "the server answers 404"),
        "server broken": Case(rows(f"{url('/500')} |  |  |  |  | a.txt"), "provisioning", "answers 500"),
        "reset": Case(rows(f"{url('/reset')} |  |  |  |  | a.txt"), "provisioning", "a.txt: "),
        "shorter than said": Case(rows(f"{url('/short')} |  |  |  |  | a.txt"), "provisioning", "a.txt: "),
        "redirect to a machine's own address": Case(
            rows(f"{url('/metadata')} |  |  |  |  | a.txt"), "provisioning", "not a public address", profile="roaming"
        ),
        "redirect to a file": Case(
            rows(f"{url('/to-file')} |  |  |  |  | a.txt"), "provisioning", "a.txt: ", profile="roaming"
        ),
        "redirect": Case(rows(f"{url('/moved')} |  |  |  |  | a.txt"), "provisioning", "none are followed"),
        "zip slip": Case(packed(**{"..__..__evil": b"x"}), "provisioning", "payload.zip: ", **container),
        "zip link": Case(link(), "provisioning", "is a link or a device", **container),
        "zip bomb": Case(packed(zeros=bytes(9_000_000)), "provisioning", "unpacks to more than", **container),
        "bzip2 bomb": Case(lying_zip(zipfile.ZIP_BZIP2), "provisioning", "more than the 1,000 bytes", **container),
        "unknown method": Case(patched_zip(9), "provisioning", "compressed with Deflate64", **container),
        "sparse tar": Case(pax_sparse("0.1"), "provisioning", "sparse", type="container", name="payload.tgz"),
        "zip cut off": Case(packed(a_txt=b"x")[:-9], "provisioning", "damaged or not a zip", **container),
        "no container": Case(b"x", None, "not a container that can be unpacked", type="container", name="payload.rar"),
        "erc of another encoding": Case(rows(row, erc), "downloading", "is not UTF-8"),
        "entities in XML": Case(
            rows(row, f"{url('/xxe')} |  |  |  |  | mrt-dc.xml"), "downloading", "<!DOCTYPE"
        ),
        "embargo": Case(rows(row, f"{url('/good')} |  |  |  |  | mrt-embargo.txt"), "downloading", "embargo"),
        "update of nothing": Case(rows(row), "downloading", "nothing to update", how={"mode": "update"}),
    }  # fmt: skip


def test_each_mistake_ends_in_a_defined_state_with_a_reason_and_nothing_is_stored(there: Site) -> None:
    limits: dict[str, Any] = {"limits__tries": 1, "limits__object_size": 5_000_000, "limits__manifest_size": 50_000}
    there.profile(**limits)
    there.profile(
        "roaming", **limits, sources__redirects=2, sources__ports=[there.origin.port, 80], sources__roots=["/etc"],
        sources__schemes=["http", "file"],
    )  # fmt: skip
    serve_badly(there)
    wanted = cases(there.origin.url)
    with there.gate() as gate, running(gate, workers=4):
        handed_in = {name: submit(there, gate, case, number) for number, (name, case) in enumerate(wanted.items())}
        found = {name: told(gate, ended(gate, batch)) for name, batch in handed_in.items()}
        assert {name: (state, after) for name, (state, after, _) in found.items()} == {
            name: ("failed", case.after) for name, case in wanted.items()
        }
        unclear = {name: message for name, (_, _, message) in found.items() if wanted[name].told not in message}
        assert unclear == {}
        assert list(there.storage(gate).objects()) == []
        assert gate.inventory.objects() == []
        assert list((there.folder / "storage.staging").iterdir()) == []
        assert there.callbacks() == []


def serve_badly(there: Site) -> None:
    there.origin.add("/good", b"good")
    there.origin.add("/latin1", b"erc:\nwho: J\xfcrgen\n")
    there.origin.add("/xxe", b'<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><x>&e;</x>')
    there.origin.always |= {
        "/500": acts.status(500), "/reset": acts.reset, "/moved": acts.redirect("http://127.0.0.1:1/"),
        "/short": acts.promise(9, b"four"), "/metadata": acts.redirect("http://169.254.169.254/latest/meta-data/"),
        "/to-file": acts.redirect("file:///etc/passwd"),
    }  # fmt: skip


def submit(there: Site, gate: Gate, case: Case, number: int) -> Batch:
    url = there.origin.add(f"/{number}/{case.name}", case.payload)
    return gate.queue.submit(case.profile, "ann", url, type=case.type, **case.how)


def told(gate: Gate, batch: Batch) -> tuple[str, str | None, str]:
    jobs = gate.queue.jobs(batch=batch.id)
    if not jobs:
        return batch.state, "no job", batch.message
    (job,) = jobs
    return batch.state, job.last_successful, job.message


def test_an_unknown_profile_is_reported(there: Site) -> None:
    there.profile()
    with there.gate() as gate, running(gate):
        batch = ended(gate, gate.queue.submit("dmeo", "ann", there.origin.url("/x")))
        assert (batch.state, batch.jobs.failed) == ("failed", 0)
        assert "there is no profile dmeo" in batch.message


def test_a_manifest_that_cannot_be_downloaded_now_is_requested_again(there: Site) -> None:
    there.profile(limits__tries=1)
    url = there.object_manifest("/1.checkm", {"a.txt": b"a"})
    there.origin.always["/1.checkm"] = acts.status(503)
    with there.gate() as gate, running(gate):
        batch = ended(gate, gate.queue.submit("demo", "ann", url))
        (job,) = gate.queue.jobs(batch=batch.id)
        assert (job.state, job.last_successful) == ("failed", "provisioning")
        del there.origin.always["/1.checkm"]
        gate.queue.resume(job.id)
        until(lambda: gate.queue.job(job.id).state == "completed", "the job completes")
