"""Write the software bill of materials that goes with a wheel: CycloneDX JSON, made from the lock file.

    python tools/sbom.py dist            writes dist/headgate-VERSION.cdx.json
    python tools/sbom.py --check FILE    compares a file with CycloneDX's own schema (needs .venv-audit)

It lists each package that `headgate[all]` installs, with the digests that an installation accepts and what needs it.
The same lock file gives the same bytes.
"""

import json
import re
import sys
import tomllib
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements-runtime.lock"
SPECIFICATION = "1.6"
#: The lock file lists the project itself under this name, and what only its build needs.
PROJECT, BUILD = "headgate (pyproject.toml)", "headgate (pyproject.toml:build)"
_PACKAGE = re.compile(r"(?P<name>[a-z0-9][a-z0-9._-]*)(?:\[[^]]*])?==(?P<version>\S+)(?: ; (?P<marker>[^\\]+?))? *\\?")
_NAMESPACE = uuid.UUID("b8a3a0c2-51f5-5a3a-9d3c-6f3a3bfb6e0d")


@dataclass
class Package:
    """A package of the lock file."""

    name: str
    version: str
    marker: str
    hashes: list[str] = field(default_factory=list)
    #: Names of what needs it.
    via: list[str] = field(default_factory=list)

    @property
    def purl(self) -> str:
        return f"pkg:pypi/{self.name}@{self.version}"


def read_lock(text: str) -> list[Package]:
    """Return the packages of a lock file; ValueError for a line that cannot be parsed."""
    found: list[Package] = []
    for line in text.splitlines():
        words = line.strip().removesuffix("\\").strip()
        if package := _PACKAGE.fullmatch(line):
            found.append(Package(package["name"], package["version"], (package["marker"] or "").strip()))
        elif words.startswith("--hash=sha256:"):
            found[-1].hashes.append(words.removeprefix("--hash=sha256:"))
        elif words.startswith("#"):
            name = words.removeprefix("#").strip().removeprefix("via").strip()
            found[-1].via += [name] if name and not name.startswith("-") else []
        elif words:
            raise ValueError(f"not a line of a lock file: {line!r}")
    return found


def bill(packages: Iterable[Package], project: Mapping[str, Any]) -> dict[str, Any]:
    """Return the bill of materials of the project: a CycloneDX document."""
    listed = sorted(packages, key=lambda each: each.name)
    core = {re.split(r"[^A-Za-z0-9._-]", each)[0].lower() for each in project["dependencies"]}
    scopes = _scopes(listed, core)
    own = f"pkg:pypi/{project['name']}@{project['version']}"
    content = json.dumps([[each.purl, each.hashes, scopes[each.name]] for each in listed])
    return {
        "$schema": f"http://cyclonedx.org/schema/bom-{SPECIFICATION}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": SPECIFICATION,
        "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMESPACE, own + content)}",
        "version": 1,
        "metadata": {
            "lifecycles": [{"phase": "build"}],
            "component": {
                "type": "application", "bom-ref": own, "name": project["name"], "version": project["version"],
                "description": project["description"], "purl": own,
                "licenses": [{"license": {"id": project["license"]}}],
            },
        },
        "components": [_component(each, scopes[each.name]) for each in listed],
        "dependencies": [
            {"ref": own, "dependsOn": [each.purl for each in listed if PROJECT in each.via]},
            *({"ref": each.purl, "dependsOn": _needs(each, listed)} for each in listed),
        ],
    }  # fmt: skip


def _component(package: Package, scope: str) -> dict[str, Any]:
    hashes = [{"alg": "SHA-256", "content": each} for each in package.hashes]
    found = {
        "type": "library", "bom-ref": package.purl, "name": package.name, "version": package.version, "scope": scope,
        "purl": package.purl,
        # A package is one of several files, each with a digest of its own.
        "externalReferences": [
            {"type": "distribution", "url": f"https://pypi.org/simple/{package.name}/", "hashes": hashes}
        ],
    }  # fmt: skip
    condition = {"properties": [{"name": "headgate:marker", "value": package.marker}]} if package.marker else {}
    return {**found, **condition}


def _needs(package: Package, listed: list[Package]) -> list[str]:
    return [each.purl for each in listed if package.name in each.via]


def _scopes(listed: list[Package], core: set[str]) -> dict[str, str]:
    """`required` for every installation, `optional` for extras, `excluded` if only the build needs it."""
    runtime = _reach(listed, {each.name for each in listed if PROJECT in each.via})
    always = _reach(listed, core)
    return {
        each.name: "required" if each.name in always else "optional" if each.name in runtime else "excluded"
        for each in listed
    }


def _reach(listed: list[Package], names: set[str]) -> set[str]:
    """These packages, and all that they need."""
    while more := {each.name for each in listed if names & set(each.via)} - names:
        names = names | more
    return names


def check(path: Path) -> int:
    """Compare a file with the schema of CycloneDX, which is in a separate library."""
    from cyclonedx.schema import SchemaVersion  # type: ignore[import-not-found,unused-ignore]
    from cyclonedx.validation.json import JsonStrictValidator  # type: ignore[import-not-found,unused-ignore]

    problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(path.read_text(encoding="utf-8"))
    print(f"{path}: {problem or f'a valid bill of materials (CycloneDX {SPECIFICATION})'}")
    return 1 if problem else 0


def main(words: list[str]) -> int:
    if words[:1] == ["--check"]:
        return check(Path(words[1]))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    document = bill(read_lock(LOCK.read_text(encoding="utf-8")), project)
    target = Path(words[0]) / f"headgate-{project['version']}.cdx.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(target)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
