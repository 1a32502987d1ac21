"""Versions of ZooKeeper that can lose confirmed writes."""

from __future__ import annotations

import re

Version = tuple[int, int, int]
#: The command that every server answers, unless its `4lw.commands.whitelist` excludes it.
ASK_SERVER = b"srvr"
#: The first versions of each series with the fix of ZOOKEEPER-4785; 3.9.3 has another defect (ZOOKEEPER-4925).
FIXED: dict[tuple[int, int], int] = {(3, 8): 4, (3, 9): 2}
DEFECTIVE: frozenset[Version] = frozenset({(3, 9, 3)})
_VERSION = re.compile(r"^Zookeeper version: (\d+)\.(\d+)\.(\d+)", re.MULTILINE)
_ALONE = re.compile(r"^Mode: standalone$", re.MULTILINE)


def member_version(answer: str) -> Version | None:
    """Return the version in a server's answer to ASK_SERVER; None if it stands alone or reports none."""
    found = _VERSION.search(answer)
    return None if found is None or _ALONE.search(answer) else (int(found[1]), int(found[2]), int(found[3]))


def may_lose_writes(version: Version) -> bool:
    """Whether servers of that version can lose confirmed writes when the connections between them break."""
    series, patch = version[:2], version[2]
    if series in FIXED:
        return patch < FIXED[series] or version in DEFECTIVE
    return series < min(FIXED)


def version_notice(store: str, version: Version | None) -> list[str]:
    """Return a warning about the servers' version; empty for a good or an unknown one."""
    if version is None or not may_lose_writes(version):
        return []
    text = ".".join(map(str, version))
    notice = (
        f"{store} runs ZooKeeper {text}, which can lose writes that it has confirmed when the connections between its "
        "servers break. Upgrade it to 3.8.4 or 3.9.4, or later"
    )
    return [notice]
