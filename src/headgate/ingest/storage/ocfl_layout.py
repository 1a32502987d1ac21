"""Paths in an OCFL 1.1 storage root: layout 0004, by the SHA-256 of an object's id."""

from __future__ import annotations

import hashlib
import json

ROOT_DECLARATION = "0=ocfl_1.1"
LAYOUT = "0004-hashed-n-tuple-storage-layout"
LAYOUT_FILE = "ocfl_layout.json"
CONFIG_FILE = f"extensions/{LAYOUT}/config.json"
CONFIG = {
    "extensionName": LAYOUT,
    "digestAlgorithm": "sha256",
    "tupleSize": 3,
    "numberOfTuples": 3,
    "shortObjectRoot": False,
}
_DESCRIPTION = "Objects are located by the SHA-256 of their id, in three levels of three digits."


def home_of(object_id: str) -> str:
    """The path of an object below the root."""
    digest = hashlib.sha256(object_id.encode()).hexdigest()
    return f"{digest[0:3]}/{digest[3:6]}/{digest[6:9]}/{digest}"


def root_files() -> dict[str, bytes]:
    """The files of a new root. The declaration comes last: a root without it is still being created."""
    return {
        CONFIG_FILE: json.dumps(CONFIG, indent=1).encode(),
        LAYOUT_FILE: json.dumps({"extension": LAYOUT, "description": _DESCRIPTION}, indent=1).encode(),
        ROOT_DECLARATION: b"ocfl_1.1\n",
    }
