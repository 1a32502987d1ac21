"""OCFL objects changed at random: in their inventories, or in their files."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.ingest.ocfl_objects import Maker, write_inventory

FORMS = [(specification, algorithm) for specification in ("1.0", "1.1") for algorithm in ("sha256", "sha512")]
#: Values that replace others.
STRANGE: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1.5,
    10**30,
    "",
    "v1",
    "x",
    "\u0000",
    "..",
    [],
    {},
    [[]],
    {"": {}},
    {"a": None},
]


def mutated(document: Any, dice: random.Random) -> Any:
    """The document with one of its parts replaced, removed, or moved."""
    places: list[tuple[Any, Any]] = []

    def collect(part: Any) -> None:
        for key, value in part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ():
            places.append((part, key))
            collect(value)

    collect(document)
    part, key = dice.choice(places)
    act = dice.randrange(4)
    if act == 0:
        part[key] = dice.choice(STRANGE)
    elif act == 1:
        del part[key]
    elif act == 2 and isinstance(part, dict):
        part[str(dice.choice(STRANGE))] = part.pop(key)
    else:
        other, at = dice.choice(places)
        part[key] = other[at] if at in (other if isinstance(other, dict) else range(len(other))) else None
    return document


def make_mutants(folder: Path, count: int, seed: int) -> list[Path]:
    """Objects of which one inventory, or all of them, were changed with matching sidecars; or had a byte flipped."""
    dice = random.Random(seed)
    made = []
    for number in range(count):
        maker = Maker(*dice.choice(FORMS), width=dice.choice([0, 0, 3]), directory=dice.choice([None, None, "data"]))
        root = maker.make(folder / f"{seed}-{number}")
        places = dice.choice([[root, root / maker.name(2)], [root / maker.name(1)], [root]])
        raw = (places[0] / "inventory.json").read_bytes()
        if dice.random() < 0.15:
            at = dice.randrange(len(raw))
            raw = dice.choice([raw[:at], raw[:at] + bytes([dice.randrange(256)]) + raw[at + 1 :]])
        else:
            try:
                raw = json.dumps(mutated(json.loads(raw), dice)).encode()
            except (RecursionError, ValueError):  # It was moved into itself.
                continue
        for place in places:
            write_inventory(place, raw, maker.algorithm)
        made.append(root)
    return made


#: New names of files and folders.
NAMES = (
    "x", "logs", "extensions", "v1", "v3", "v01", "content", "inventory.json", "inventory.json.sha256",
    "inventory.json.sha512", "0=ocfl_object_1.1", "0=", "..x", "ünï", ".hidden",
)  # fmt: skip


def make_damaged(folder: Path, count: int, seed: int) -> list[Path]:
    """Objects of which up to three files or folders were removed, renamed, added, copied or changed."""
    dice = random.Random(seed)
    made = [
        Maker(*dice.choice(FORMS), width=dice.choice([0, 3])).make(folder / f"{seed}-{number}")
        for number in range(count)
    ]
    for root in made:
        for _ in range(dice.randrange(1, 4)):
            with suppress(OSError):  # The change is not possible for that file.
                damage(root, dice)
    return made


def damage(root: Path, dice: random.Random) -> None:
    paths = sorted(root.rglob("*"))
    path, new = dice.choice(paths), dice.choice(NAMES)
    inside = path if path.is_dir() else path.parent
    match dice.randrange(6):
        case 0:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        case 1:
            path.rename(path.with_name(new))
        case 2:
            (inside / new).write_bytes(dice.randbytes(3))
        case 3:
            (inside / new).mkdir()
        case 4:
            shutil.copy(path, dice.choice([each for each in paths if each.is_file()]))
        case _:
            data, at = path.read_bytes(), dice.randrange(path.stat().st_size + 1)
            path.write_bytes(data[:at] + dice.randbytes(dice.randrange(3)) + data[at + dice.randrange(2) :])


#: Files of versions: with new content in each, or with none in some.
GROWING = (
    {"a.txt": b"one", "deep/b.txt": b"two"},
    {"a.txt": b"three", "deep/b.txt": b"two"},
    {"a.txt": b"one", "c": b""},
)
RESTING = ({"a.txt": b"one"}, {"a.txt": b"one"}, {"a.txt": b"two", "x/y": b""})
#: Ways to write a sidecar, valid and invalid ones.
SIDECARS: tuple[Callable[[str], str], ...] = (
    str.upper, str.rstrip, lambda text: text.replace(" ", "\t"), lambda text: text.replace(" ", "  "),
    lambda text: text + "\n", lambda text: text.replace("\n", "\r\n"), lambda text: text.split()[0],
    lambda _text: "", lambda text: f"\n{text}", lambda text: f" {text}", lambda text: text[1:], lambda text: text * 2,
    lambda text: text.replace("inventory.json", "inventory.jsn"),
)  # fmt: skip


def make_grown(folder: Path, count: int, seed: int) -> list[Path]:
    """Objects whose first versions have another OCFL version or algorithm, with up to two changes."""
    dice = random.Random(seed)
    made = []
    for number in range(count):
        how: dict[str, Any] = {
            "width": dice.choice([0, 0, 4]), "directory": dice.choice([None, None, "data"]),
            "versions": dice.choice([GROWING, RESTING]),
            "fixity": dice.choice([(), ("md5",), ("md5", "sha1"), ("sha256", "sha512")]),
        }  # fmt: skip
        maker, root = Maker(*dice.choice(FORMS), **how), folder / f"{seed}-{number}"
        maker.make(root)
        older = Maker(*dice.choice(FORMS), **{**how, "versions": how["versions"][: dice.choice([0, 1, 2])]})
        if older.versions:
            _grow(root, older, folder / "older")
        for _ in range(dice.choice([0, 1, 1, 2, 3])):
            with suppress(
                OSError, IndexError, ValueError, RecursionError
            ):  # The change is not possible for that object.
                dice.choice([_mutate, _mutate, _rewrite_sidecar, damage])(root, dice)
        if root.is_dir():
            made.append(root)
    return made


def _grow(root: Path, older: Maker, scratch: Path) -> None:
    """Give the first versions the inventories that they had before later versions existed."""
    older.make(scratch)
    for number in range(1, len(older.versions) + 1):
        name = older.name(number)
        for path in (root / name).glob("inventory.json*"):
            path.unlink()
        for path in (scratch / name).glob("inventory.json*"):
            path.rename(root / name / path.name)
    shutil.rmtree(scratch)


def _mutate(root: Path, dice: random.Random) -> None:
    """Change one inventory, with or without its copy in the newest version, and update its sidecar."""
    places = [path.parent for path in sorted(root.rglob("inventory.json"))]
    raw = (dice.choice(places) / "inventory.json").read_bytes()
    changed = json.dumps(mutated(json.loads(raw), dice)).encode()
    same = [place for place in places if (place / "inventory.json").read_bytes() == raw]
    for place in same if dice.random() < 0.8 else same[:1]:
        (sidecar,) = place.glob("inventory.json.*")
        write_inventory(place, changed, sidecar.suffix[1:])


def _rewrite_sidecar(root: Path, dice: random.Random) -> None:
    path = dice.choice(sorted(root.rglob("inventory.json.*")))
    path.write_bytes(dice.choice(SIDECARS)(path.read_text()).encode())
