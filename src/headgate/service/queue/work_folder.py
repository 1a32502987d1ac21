"""The work folder: receives uploaded files; the files of jobs are removed when they are no longer needed."""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from headgate import private
from headgate.core.errors import BadValue, ServiceUnavailable, UnknownName
from headgate.core.queue.model import FOLDERS, Folder, IngestJob, check_item_id, is_batch
from headgate.core.values.names import check_name
from headgate.service.queue.use_cases import Queue
from headgate.settings import Settings
from headgate.telemetry import event

#: The name of the work folder's owner file: files unknown to one store may belong to another.
MARK = ".store"
#: Submitted files are kept here until their batch is removed.
UPLOADS = "uploads"
#: The name prefix of a folder with an incomplete file, and the end of the owner's part of a name.
PARTIAL, OWNER_ENDS = ".", "-"
#: Seconds after which such a file is no longer being sent, whatever its sender says.
PARTIAL_SECONDS = 3600
#: The minimum disk usage of a file with its folder.
LEAST_BYTES = 8192
#: The maximum length of a file name.
NAME_BYTES = 255
#: In these states a job's folder is not needed: its object is stored, recorded, and reported to the callback.
NOT_NEEDED = tuple(state for state, folder in FOLDERS.items() if folder is Folder.COMPLETED)


def work_folder(settings: Settings) -> Path:
    """Return the folder in which ingest jobs keep their files while they are worked on."""
    return Path(settings["work_folder"]).absolute()


def make_work_folder(settings: Settings) -> Path:
    """Make the work folder if it is missing, shared with `store_group` or private; return it."""
    private.make_root(work_folder(settings), private.find_group(settings["store_group"]))
    return work_folder(settings)


def stage_upload(folder: Path, source: Path) -> str:
    """Copy a submitted file to where every daemon finds it. Returns its URL, which cannot be guessed."""
    place = place_upload(folder, source.name)
    try:
        private.copy(source, place)
        with place.open("rb") as file:
            return keep_upload(file).as_uri()
    except BaseException:
        shutil.rmtree(place.parent, ignore_errors=True)
        raise


def keep_upload(file: BinaryIO) -> Path:
    """Mark an upload as complete: the file and its folders are durable from now on. Returns its path."""
    file.flush()
    os.fsync(file.fileno())
    place = Path(file.name)
    kept = place.parent.with_name(place.parent.name.removeprefix(PARTIAL)) / place.name
    place.parent.rename(kept.parent)
    for folder in list(kept.parents)[:3]:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    return kept


def place_upload(folder: Path, name: str, owner: str = "") -> Path:
    """The path for a submitted file: in a new folder with an unguessable name that begins with its owner.

    The folder is marked until `keep_upload` is called for the whole file.
    """
    check_name("file name", name)
    if name in (".", ".."):
        raise BadValue("file name", name, "is a folder, not a file")
    if len(os.fsencode(name)) > NAME_BYTES:
        raise BadValue("file name", name, f"has more than {NAME_BYTES} bytes")
    place = folder / UPLOADS / f"{PARTIAL}{owner}{OWNER_ENDS if owner else ''}{secrets.token_hex(16)}"
    private.make_folder(place, new=True)
    return place / name


def upload_owner(folder: Path, url: str) -> str | None:
    """The submitter of the file that a URL names: empty if it was submitted on this machine. None: it is not such a
    file.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    place, uploads = Path(unquote(parts.path)), folder / UPLOADS
    if parts.scheme != "file" or ".." in place.parts or not place.is_relative_to(uploads):
        return None
    name = next(iter(place.relative_to(uploads).parts), "")
    return name.removeprefix(PARTIAL).rpartition(OWNER_ENDS)[0]


def remove_working_folder(job: IngestJob) -> bool:
    """Remove the working folder of a job that completed; its batch's folder stays. False: there was none.

    A folder that cannot be removed is logged and left to the cleaner.
    """
    place = Path(str(job.configuration.get("working_dir", "")))
    # The name must be the one that the queue assigned: a job's own settings may name any folder.
    if place.parts[-2:] != (job.batch, job.id) or not place.is_dir():
        return False
    return _remove(place)


def _remove(place: Path) -> bool:
    try:
        shutil.rmtree(place)
    except FileNotFoundError:  # Another process removes it too.
        return False
    except OSError as error:
        event("work_folder.not_removed", logging.WARNING, folder=str(place), why=error.strerror or str(error))
        return False
    event("work_folder.removed", folder=str(place))
    return True


def sweep_folder(queue: Queue, folder: Path, tag: str, age: float, forget: Callable[[str], None]) -> int:
    """Remove the folders of completed jobs, and of removed jobs and batches. Returns how many.

    `forget` is called with the id of each removed item before its folder is removed, so that an interrupted sweep is
    repeated.
    """
    try:
        return _sweep(queue, folder, tag, age, forget) if folder.is_dir() else 0
    except OSError as error:
        # A full disk, or another process was first: the next round finds what is left.
        raise ServiceUnavailable(f"work folder {folder}", error.strerror or str(error)) from error


def _sweep(queue: Queue, folder: Path, tag: str, age: float, forget: Callable[[str], None]) -> int:
    if not _is_ours(folder, tag):
        return 0
    count = 0
    for place, is_gone in _done(queue, folder):
        if is_gone:
            forget(place.name)
        count += _remove(place)
    for place in _orphans(queue, folder / UPLOADS, age):
        shutil.rmtree(place, ignore_errors=True)
        count += 1
    return count


def _is_ours(folder: Path, tag: str) -> bool:
    mark = folder / MARK
    # An empty one was not written completely.
    if not mark.exists() or not mark.read_bytes():
        private.write(mark, tag)
    if mark.read_text(encoding="utf-8") == tag:
        return True
    event("work_folder.of_another_store", logging.WARNING, folder=str(folder))
    return False


def _done(queue: Queue, folder: Path) -> Iterator[tuple[Path, bool]]:
    """Folders that are not needed, each with whether the queue no longer knows its item."""
    for batch in sorted(folder.iterdir()):
        if not _is_id(batch.name) or not batch.is_dir():
            continue
        if not is_known(queue, batch.name):
            yield batch, True
            continue
        for job in sorted(batch.iterdir()):
            if _is_id(job.name) and job.is_dir() and (state := state_of(queue, job.name)) in (*NOT_NEEDED, ""):
                yield job, not state


def _is_id(name: str) -> bool:
    try:
        check_item_id(name)
    except BadValue:
        return False
    return True


def is_known(queue: Queue, item: str) -> bool:
    """Whether the queue has a batch or ingest job."""
    try:
        queue.batch(item) if is_batch(item) else queue.job(item)
    except UnknownName:
        return False
    return True


def state_of(queue: Queue, job: str) -> str:
    """A job's state; empty: the queue does not know it."""
    try:
        return queue.job(job).state
    except UnknownName:
        return ""


def staged_bytes(folder: Path) -> Counter[str]:
    """Bytes of submitted files by owner: complete ones, and those being received."""
    found: Counter[str] = Counter()
    for place in _entries(folder / UPLOADS):
        owner = place.name.removeprefix(PARTIAL).rpartition(OWNER_ENDS)[0]
        sizes = sum(each.stat().st_size for each in _entries(Path(place.path)))
        found[owner] += max(sizes, LEAST_BYTES)
    return found


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """The content of a folder; empty if it no longer exists."""
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as found:
        return list(found)
    return []


def _changed(place: Path) -> float:
    """When a file in a folder was last written to, or the folder created."""
    return max(each.stat().st_mtime for each in (place, *place.iterdir()))


def _orphans(queue: Queue, uploads: Path, age: float) -> Iterator[Path]:
    """Uploads that no batch names, and that are too old to be part of a submission in progress."""
    if not uploads.is_dir():
        return
    now, there = time.time(), list(uploads.iterdir())
    partial = [each for each in there if each.name.startswith(PARTIAL)]
    yield from (each for each in partial if now - _changed(each) > PARTIAL_SECONDS)
    whole = set(there) - set(partial)
    old = [each for each in whole if now - each.stat().st_mtime > max(age, PARTIAL_SECONDS)]
    if not old:
        return
    named = {Path(unquote(urlsplit(each.submission.payload_url).path)).parent for each in queue.batches()}
    yield from (each for each in old if each not in named)
