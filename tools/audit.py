"""Look up known vulnerabilities of the packages in a lock file. Needs the network; runs pip-audit in .venv-audit.

Exit code 0: every package was looked up, and none has a known vulnerability. 1: some have. 2: the audit could not be
done completely; that never counts as clean.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CLEAN, VULNERABLE, NOT_AUDITED = 0, 1, 2


def main(words: list[str]) -> int:
    worst = CLEAN
    for lock in words:
        code, lines = audit(Path(lock))
        print("\n".join(lines), file=sys.stderr if code else sys.stdout)
        worst = max(worst, code)
    return worst


def audit(lock: Path) -> tuple[int, list[str]]:
    """Return the exit code for one lock file, and what to print."""
    command = [
        sys.executable, "-m", "pip_audit", "--disable-pip", "--require-hashes", "--requirement", str(lock),
        "--format", "json", "--progress-spinner", "off",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        document = json.loads(done.stdout)
    except ValueError:
        why = (done.stderr.strip().splitlines() or ["pip-audit printed nothing"])[-1]
        return NOT_AUDITED, [f"{lock}: not audited: {why}"]
    code, lines = judge(document)
    return code, [f"{lock}: {line}" for line in lines]


def judge(document: Mapping[str, Any]) -> tuple[int, list[str]]:
    """Return the exit code for a report of pip-audit, and what to print."""
    packages = document["dependencies"]
    skipped = [each["name"] for each in packages if "skip_reason" in each]
    found = [(each, one) for each in packages for one in each.get("vulns", ())]
    lines = [
        f"{each['name']} {each['version']}: {one['id']}"
        + (f", fixed in {', '.join(one['fix_versions'])}" if one["fix_versions"] else ", not fixed yet")
        for each, one in found
    ]
    if skipped or not packages:
        lines.append(f"not audited: {len(skipped)} of {len(packages)} packages could not be looked up")
    if lines:
        return (NOT_AUDITED if skipped or not packages else VULNERABLE), lines
    return CLEAN, [f"{len(packages)} packages, no known vulnerabilities"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
