"""The contents of a wheel are listed, and an audit that could not be done does not count as clean."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from tools import audit, sbom

ROOT = Path(__file__).parents[2]


def test_the_bill_of_materials_lists_the_lock_file_with_digests_and_dependencies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sbom.main([str(tmp_path)]) == 0
    (written,) = tmp_path.iterdir()
    assert capsys.readouterr().out.strip() == str(written)
    found = json.loads(written.read_bytes())
    assert (found["bomFormat"], found["specVersion"], found["version"]) == ("CycloneDX", "1.6", 1)
    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", found["serialNumber"])
    locked = re.findall(r"^([a-z0-9._-]+)(?:\[.*])?==(\S+)", sbom.LOCK.read_text(encoding="utf-8"), re.MULTILINE)
    assert [(each["name"], each["version"]) for each in found["components"]] == sorted(locked)
    hashes = [one["content"] for each in found["components"] for one in each["externalReferences"][0]["hashes"]]
    assert sorted(hashes) == sorted(re.findall(r"sha256:([0-9a-f]{64})", sbom.LOCK.read_text(encoding="utf-8")))
    needs = {each["ref"].partition("@")[0]: each["dependsOn"] for each in found["dependencies"]}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"pkg:pypi/headgate@{project['version']}" == found["metadata"]["component"]["purl"]
    core = {re.split("[>=<]", each)[0] for each in project["dependencies"]}
    assert core <= {each.split("/")[1].partition("@")[0] for each in needs["pkg:pypi/headgate"]}
    scopes = {each["name"]: each["scope"] for each in found["components"]}
    assert (scopes["click"], scopes["fastapi"], scopes["hatchling"]) == ("required", "optional", "excluded")
    refs = {each["bom-ref"] for each in found["components"]} | {found["metadata"]["component"]["bom-ref"]}
    assert {ref for each in found["dependencies"] for ref in (each["ref"], *each["dependsOn"])} == refs


def test_a_line_that_the_bill_cannot_read_is_refused() -> None:
    with pytest.raises(ValueError, match="not a line of a lock file"):
        sbom.read_lock("git+https://example.org/x\n")


def test_an_audit_is_clean_only_when_everything_was_looked_up() -> None:
    clean = {"name": "a", "version": "1", "vulns": []}
    bad = {"name": "b", "version": "2", "vulns": [{"id": "CVE-2026-1", "fix_versions": ["3"]}]}
    skipped = {"name": "c", "skip_reason": "Dependency not found on PyPI and could not be audited: c (1)"}
    assert audit.judge({"dependencies": [clean]}) == (0, ["1 packages, no known vulnerabilities"])
    assert audit.judge({"dependencies": [clean, bad]}) == (1, ["b 2: CVE-2026-1, fixed in 3"])
    code, lines = audit.judge({"dependencies": [clean, bad, skipped]})
    assert (code, lines[-1]) == (2, "not audited: 1 of 3 packages could not be looked up")
    assert audit.judge({"dependencies": []})[0] == 2


def test_an_audit_that_cannot_be_done_says_so(tmp_path: Path) -> None:
    """The interpreter of the tests has no pip-audit: that is one reason why an audit fails."""
    code, (line,) = audit.audit(tmp_path / "a.lock")
    assert code == 2
    assert "a.lock: not audited: " in line
