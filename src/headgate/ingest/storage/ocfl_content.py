"""The bytes of an OCFL object in a folder: writing them while checking digests, and reading them for verification."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from headgate import private
from headgate.core.errors import BadPayload
from headgate.ingest.formats.digests import DEFAULT
from headgate.ingest.formats.hashing import RunningDigests, blocks, mismatch
from headgate.ingest.safe_files import write_all
from headgate.ingest.stopping import Stop, check_stop
from headgate.ingest.storage.port import NewFile, Progress

#: Large files are copied concurrently: one waits for the disk while another is hashed.
_THREADS = 4
_LARGE = 1 << 20


def write_content(folder: Path, content: Mapping[str, NewFile], stop: Stop | None, progress: Progress | None) -> None:
    """Copy every file to its content path, synced. BadPayload when one does not match its digest."""
    for parent in sorted({(folder / path).parent for path in content}):
        private.make_folder(parent)
    large = {path: file for path, file in content.items() if file.size >= _LARGE}
    for path in content.keys() - large:
        _copy(folder, path, content[path], stop, progress)
    if not large:
        return
    with ThreadPoolExecutor(min(_THREADS, len(large)), thread_name_prefix="store") as pool:
        futures = [pool.submit(_copy, folder, path, file, stop, progress) for path, file in large.items()]
        try:
            for future in futures:
                future.result()
        finally:
            for future in futures:
                future.cancel()


def _copy(folder: Path, path: str, file: NewFile, stop: Stop | None, progress: Progress | None) -> None:
    if not file.path.is_file():
        raise BadPayload(str(file.path), "it is missing, or not a file")
    running = RunningDigests([DEFAULT])
    # The folder is a private stage of ours, so its path contains no links.
    target = private.open_file(folder / path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        with file.path.open("rb", buffering=0) as source:
            for block in blocks(source):
                check_stop(stop, "storing")
                running.update(block)
                write_all(target, block)
                if progress:
                    progress(len(block))
        os.fsync(target)
    finally:
        os.close(target)
    if problem := mismatch({DEFAULT: file.digests[DEFAULT]}, running.values()):
        raise BadPayload(str(file.path), f"it changed since it was checked: {problem}")
