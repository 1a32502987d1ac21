"""Limits on the unpacked size of a container. The budget is spent where bytes are produced, before they are stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from headgate.core.errors import BadPayload
from headgate.ingest.stopping import Stop, check_stop

#: Small files may be compressed further than the ratio allows.
FREE_BYTES = 1 << 20
#: Maximum header size of a member: names and notes of legitimate files are far shorter.
HEADER_BYTES = 1 << 20
#: Bytes of headers and padding that a container may have for each allowed file.
BYTES_PER_FILE = 4096


@dataclass(frozen=True, slots=True)
class ContainerLimits:
    """The limits of a container."""

    files: int = 100_000
    total_bytes: int = 1 << 40
    #: Its unpacked size in bytes.
    ratio: int = 100


@dataclass(frozen=True, slots=True)
class PackedMember:
    """A packed member."""

    name: str
    #: None: unknown before its end.
    size: int | None
    #: Its content in blocks of bounded size.
    blocks: Callable[[], Iterator[bytes]]


class Budget:
    """The remaining amount that may be unpacked from a container."""

    def __init__(self, limits: ContainerLimits, archive: str, size: int, stop: Stop | None = None) -> None:
        self.archive = archive
        self.limits = limits
        self._stop = stop
        self._files = 0
        self._folders = 0
        self._content_left = limits.total_bytes
        self._produced_left = size * limits.ratio + FREE_BYTES
        self._overhead_left = HEADER_BYTES + limits.files * BYTES_PER_FILE

    def one_more(self) -> None:
        """Count a member, file or folder."""
        self._files += 1
        if self._files > self.limits.files:
            raise self.refusal(f"it has more than {self.limits.files:,} files")

    def one_more_folder(self) -> None:
        """Count a folder that had to be created for a file: one file name can require hundreds."""
        self._folders += 1
        if self._folders > self.limits.files:
            raise self.refusal(f"it has more than {self.limits.files:,} folders")

    def check(self, size: int) -> None:
        """Refuse content of that size that would exceed the budget."""
        if size > min(self._content_left, self._produced_left):
            self._too_much()

    def content(self, size: int) -> None:
        """Spend bytes of a member's content that were just produced."""
        self._produce(size)
        self._content_left -= size
        if self._content_left < 0:
            self._too_much()

    def overhead(self, size: int) -> None:
        """Spend bytes of headers and padding that were just produced."""
        self._produce(size)
        self._overhead_left -= size
        if self._overhead_left < 0:
            raise self.refusal("it has more headers and padding than its files need")

    def refusal(self, why: str) -> BadPayload:
        """The error for a refused container."""
        return BadPayload(self.archive, why)

    def _produce(self, size: int) -> None:
        check_stop(self._stop, "unpacking")
        self._produced_left -= size
        if self._produced_left < 0:
            self._too_much()

    def _too_much(self) -> None:
        limits = self.limits
        raise self.refusal(
            f"it unpacks to more than {limits.total_bytes:,} bytes, or to more than {limits.ratio} times its size"
        )
