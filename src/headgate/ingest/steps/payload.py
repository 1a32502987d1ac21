"""A job's payload: its name, its parts in the working folder, and fetching its files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headgate import private
from headgate.core.errors import BadManifest, BadPayload, BadValue, StoreUnavailable
from headgate.core.queue.model import IngestJob
from headgate.core.queue.titles import file_name_of
from headgate.core.values.plurals import plural
from headgate.core.values.redaction import shown
from headgate.ingest.containers import members as container
from headgate.ingest.containers.budget import ContainerLimits
from headgate.ingest.containers.unpacking import unpack_confined
from headgate.ingest.context import Context
from headgate.ingest.formats import manifest
from headgate.ingest.formats.digests import DEFAULT, check_algorithm
from headgate.ingest.formats.file_names import check_file_name, collisions
from headgate.ingest.formats.hashing import data_digests, file_digests, mismatch
from headgate.ingest.formats.manifest import FoundFile, Manifest
from headgate.ingest.profiles.profile import Profile
from headgate.ingest.retries import Retries
from headgate.ingest.safe_files import probe_case, sync_folder, write_synced
from headgate.ingest.sources.download import DownloadOptions, FailedDownload, Fetched, Progress, Wanted, download
from headgate.ingest.steps.new_jobs import OBJECT_LAYOUTS
from headgate.ingest.steps.system_files import PRODUCER, STORAGE_MANIFEST, SYSTEM
from headgate.ingest.stopping import Stop
from headgate.service.queue.step_logs import note


@dataclass(frozen=True, slots=True)
class JobFolder:
    """A job's working folder."""

    root: Path

    @property
    def producer(self) -> Path:
        """The depositor's files, under their original names."""
        return self.root / PRODUCER

    @property
    def system(self) -> Path:
        """What we add."""
        return self.root / SYSTEM

    @property
    def parts(self) -> Path:
        """Partial downloads."""
        return self.root / "parts"

    @property
    def packed(self) -> Path:
        """A container before it is unpacked."""
        return self.root / "container"

    @property
    def manifest(self) -> Path:
        """The object manifest as it was submitted."""
        return self.root / "manifest.checkm"

    @property
    def gathered(self) -> Path:
        """Sizes and digests of all files in `producer`; written when all of them exist."""
        return self.root / "files.json"


def folder_of(job: IngestJob) -> JobFolder:
    """The working folder of a job, which the queue names after it."""
    place = Path(str(job.configuration["working_dir"]))
    if place.parts[-2:] != (job.batch, job.id) or not place.is_absolute() or ".." in place.parts:
        raise BadValue("working_dir", str(place), f"is not the folder of {job.id}")
    return JobFolder(place)


def payload_name(job: IngestJob) -> str:
    """The name of a single-file payload."""
    return check_file_name(file_name_of(job), "the payload's file name")


def payload_url(job: IngestJob) -> str:
    return str(job.configuration["payload_url"])


def expected_digest(said: Mapping[str, Any]) -> dict[str, str]:
    """The digest submitted with a payload; none if one of its parts is missing."""
    kind, value = said.get("digest_type"), said.get("digest_value")
    return {check_algorithm(kind): str(value)} if kind and value else {}


def check_data(name: str, data: bytes, digests: Mapping[str, str]) -> None:
    """BadPayload when a small file does not match its digest."""
    if problem := mismatch(digests, data_digests(data, digests)):
        raise BadPayload(name, problem)


def write_again(folder: Path, files: Mapping[str, bytes]) -> None:
    """Files of ours below a folder. They need not be durable: after an interruption they are written again."""
    make_folder(folder)
    with _writing(folder):
        for name, content in files.items():
            private.write(folder / name, content)


def save(path: Path, data: bytes) -> None:
    """A durable file that is written completely or not at all."""
    make_folder(path.parent)
    with _writing(path):
        fresh = path.with_name(f"{path.name}.new")
        write_synced(fresh, data)
        fresh.replace(path)
        sync_folder(path.parent)


def make_folder(path: Path) -> None:
    """A folder, created if it is missing."""
    with _writing(path):
        private.make_folder(path)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """A full or missing disk is not an error of the payload: the item waits until it is available."""
    try:
        yield
    except OSError as error:
        raise StoreUnavailable(f"the working folder {path}", error.strerror or str(error)) from error


def check_sources(profile: Profile, found: Manifest) -> Manifest:
    """BadManifest with every row that may not be fetched, or when there are no rows."""
    problems = [
        (entry.line, f"{entry.name}: {why}") for entry in found.entries if (why := profile.sources.refusal(entry.url))
    ]
    if not found.entries:
        problems = [(0, "it has no entries")]
    if problems:
        raise BadManifest(problems)
    return found


def object_manifest(context: Context, job: IngestJob, profile: Profile, stop: Stop | None) -> Manifest:
    """A job's object manifest: fetched once, checked, and kept in the working folder."""
    place = folder_of(job).manifest
    limits = profile.limits
    kept = place.is_file()
    if kept:
        data = place.read_bytes()
    else:
        fetcher = context.fetcher(profile, uploaded=context.has_upload(job))
        data = fetcher.read(payload_url(job), limits.manifest_size, stop)
        check_data("the manifest", data, expected_digest(job.configuration))
    found = manifest.parse(data, OBJECT_LAYOUTS, limit=limits.manifest_size, most=limits.files)
    check_sources(profile, found)
    _check_cases(context, profile, found)
    if not kept:
        save(place, data)
    return found


def _check_cases(context: Context, profile: Profile, found: Manifest) -> None:
    """BadManifest for names that differ only in case, if the work folder or the storage cannot distinguish them."""
    names = [entry.name for entry in found.entries]
    if not any(collisions(names, "any")):
        return
    blind = "" if probe_case(context.options.work_folder) else "the work folder"
    if not blind and profile.storage.kind != "http":
        blind = context.storage(profile).case_blind
    if blind:
        clashes = list(collisions(names, blind))
        lines = [entry.line for entry in found.entries]
        raise BadManifest(sorted((lines[each.index], f"{each.why} (line {lines[each.earlier]})") for each in clashes))


# ---------------------------------------------------------------- gathering


class NotGathered(Exception):
    """Some files could not be downloaded."""

    def __init__(self, failed: Sequence[FailedDownload]) -> None:
        self.failed = tuple(failed)
        super().__init__(f"{plural(len(failed), 'file')} could not be downloaded")

    @property
    def message(self) -> str:
        """Each file with the reason, up to a maximum length."""
        many = (
            f"{len(self.failed):,} files could not be downloaded"
            if len(self.failed) > 1
            else ("a file could not be downloaded")
        )
        return f"{many}: " + "; ".join(f"{each.name}: {each.why} (tries: {each.tries})" for each in self.failed)


def gather(
    context: Context, job: IngestJob, profile: Profile, stop: Stop | None, progress: Progress | None = None
) -> dict[str, FoundFile]:
    """All files of the depositor in the working folder, checked. A repeat continues where it stopped."""
    folder = folder_of(job)
    if folder.gathered.is_file():
        return kept_files(folder)
    found = _Gathering(context, job, profile, folder, stop, progress).all()
    _check_size(found, profile)
    written = {name: [each.size, dict(each.digests)] for name, each in found.items()}
    save(folder.gathered, json.dumps(written).encode())
    return found


def kept_files(folder: JobFolder) -> dict[str, FoundFile]:
    """The files that a job has fetched, from its notes."""
    note = json.loads(folder.gathered.read_bytes())
    return {name: FoundFile(size, digests) for name, (size, digests) in note.items()}


@dataclass(frozen=True, slots=True)
class _Gathering:
    context: Context
    job: IngestJob
    profile: Profile
    folder: JobFolder
    stop: Stop | None
    progress: Progress | None

    def all(self) -> dict[str, FoundFile]:
        kind = str(self.job.configuration["payload_type"])
        if kind == "object_manifest":
            # URLs in a manifest are untrusted: they must not name uploads.
            return self._download(self._listed(), self.folder.producer, uploaded=False)
        uploaded = self.context.has_upload(self.job)
        if kind == "file":
            return self._download([self._payload()], self.folder.producer, uploaded=uploaded)
        self._download([self._payload()], self.folder.packed, uploaded=uploaded)
        return self._unpack(payload_name(self.job))

    def _listed(self) -> list[Wanted]:
        entries = object_manifest(self.context, self.job, self.profile, self.stop).entries
        return [
            Wanted(entry.url, entry.name, entry.size, {entry.algorithm: entry.digest} if entry.algorithm else {})
            for entry in entries
        ]

    def _payload(self) -> Wanted:
        said = str(self.job.configuration.get("size") or "")
        size = int(said) if said.isdecimal() else None
        return Wanted(payload_url(self.job), payload_name(self.job), size, expected_digest(self.job.configuration))

    def _download(self, wanted: Sequence[Wanted], folder: Path, *, uploaded: bool) -> dict[str, FoundFile]:
        fetcher = self.context.fetcher(self.profile, uploaded=uploaded)
        options = DownloadOptions(self.profile.limits.downloads, Retries(self.profile.limits.tries))
        outcome = download(
            fetcher, wanted, folder, self.folder.parts, options=options, stop=self.stop, progress=self.progress
        )
        for each in outcome.fetched:
            note(_fetched(each))
        for failed in outcome.failed:
            note(f"{failed.name}: {failed.why} (tries: {failed.tries}), from {shown(failed.url)}")
        if outcome.failed:
            raise NotGathered(outcome.failed)
        return {each.name: FoundFile(each.size, each.digests) for each in outcome.fetched}

    def _unpack(self, name: str) -> dict[str, FoundFile]:
        limits = self.profile.limits
        most = ContainerLimits(limits.files, limits.object_size, limits.expansion)
        # A loss of power may have left names without bytes: it is created again.
        shutil.rmtree(self.folder.producer, ignore_errors=True)
        packed = self.folder.packed / name
        members = unpack_confined(packed, container_kind(name), self.folder.producer, limits=most, stop=self.stop)
        found = {each.name: FoundFile(each.size, each.digests) for each in members}
        note(f"unpacked {name}: {plural(len(found), 'file')}, {sum(each.size for each in found.values()):,} bytes")
        return _as_it_says(self.folder, found, self.profile)


def _fetched(file: Fetched) -> str:
    digests = "".join(f", {algorithm} {digest}" for algorithm, digest in file.digests.items())
    kept = "kept from an earlier attempt" if file.earlier else f"from {shown(file.url)}"
    return f"{file.name}: {file.size:,} bytes{digests}, {kept}"


def container_kind(name: str) -> str:
    """What kind of container a file is. BadPayload when it is not a container."""
    kind = container.kind_of(name)
    if not kind:
        raise BadPayload(name, f"it is not a container that can be unpacked; supported: {', '.join(container.KINDS)}")
    return kind


def _as_it_says(folder: JobFolder, found: dict[str, FoundFile], profile: Profile) -> dict[str, FoundFile]:
    """A container must match its own list, in both directions; the list itself is not stored."""
    if STORAGE_MANIFEST not in found:
        return found
    limits = profile.limits
    with (folder.producer / STORAGE_MANIFEST).open("rb") as file:
        # One byte beyond the limit shows that it is exceeded.
        data = file.read(limits.manifest_size + 1)
    listed = manifest.parse(data, [manifest.CONTENTS], limit=limits.manifest_size, most=limits.files)
    rest = {name: each for name, each in found.items() if name != STORAGE_MANIFEST}
    algorithms = {entry.name: entry.algorithm for entry in listed.entries if entry.algorithm not in ("", DEFAULT)}
    full = {
        name: FoundFile(each.size, {**each.digests, **file_digests(folder.producer / name, [algorithms[name]])})
        if name in algorithms
        else each
        for name, each in rest.items()
    }
    if problems := manifest.differences(listed, full):
        raise BadManifest(problems)
    return rest


def _check_size(found: Mapping[str, FoundFile], profile: Profile) -> None:
    size = sum(each.size for each in found.values())
    if size > profile.limits.object_size:
        most = profile.limits.object_size
        raise BadPayload("the object", f"it has {size:,} bytes; the profile allows {most:,}")
    if not found:
        raise BadPayload("the object", "it has no files")
