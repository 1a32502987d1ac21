"""Install the Debian packages of the servers and tools that the tests need, where they are missing.

Does nothing, quickly, when all are there. Without root or without apt it says what is missing and leaves the
decision to the test run, which fails on a missing server when CI is set.
"""

import os
import shutil
import subprocess
import sys

#: Each package, and the variable that names an existing server to use instead; empty: there is no alternative.
PACKAGES = {
    "postgresql": "HEADGATE_TEST_POSTGRESQL",
    "mariadb-server": "HEADGATE_TEST_MYSQL",
    "zookeeper": "HEADGATE_TEST_ZOOKEEPER",
    "strace": "",  # kills a process at a chosen system call
    "faketime": "",  # moves the clock of one process
    "chromium": "",  # shows the dashboard
    "pgbouncer": "",  # pools connections to PostgreSQL
    "systemd": "",  # checks the unit
    "haproxy": "",  # balances requests between two services
    "prometheus": "",  # checks the alert rules, with its promtool
    "nginx-light": "",  # does TLS in front of a service, as the docs show
}
#: Programs that run the example clients, by the package that has them where nothing else does.
PROGRAMS = {"curl": "curl", "jq": "jq", "perl": "perl", "nodejs": "node", "default-jdk-headless": "javac"}


def main() -> int:
    missing = [package for package in PACKAGES if not is_installed(package)]
    needed = [package for package in missing if not os.environ.get(PACKAGES[package])]
    needed += [package for package, program in PROGRAMS.items() if shutil.which(program) is None]
    if not needed:
        return 0
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        print(how_to_get(needed), file=sys.stderr)
        return 0
    return install(needed)


def is_installed(package: str) -> bool:
    if shutil.which("dpkg-query") is None:
        return False
    query = ["dpkg-query", "--show", "--showformat", "${db:Status-Status}", package]
    answer = subprocess.run(query, capture_output=True, text=True, check=False)
    return answer.stdout == "installed"


def install(packages: list[str]) -> int:
    print(f"Installing {', '.join(packages)}", file=sys.stderr)
    # RUNLEVEL=1 prevents the packages from starting their services: the tests start private servers.
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    for command in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
        done = subprocess.run(["apt-get", *command], env=environment, check=False)
        if done.returncode != 0:
            return done.returncode
    return 0


def how_to_get(packages: list[str]) -> str:
    variables = ", ".join(PACKAGES[package] for package in packages if PACKAGES.get(package))
    instead = f", or name existing servers in {variables}" if variables else ""
    return (
        f"WARNING: these packages are missing: {', '.join(packages)}.\n"
        f"  Their tests cannot run. Install the packages as root{instead}."
    )


if __name__ == "__main__":
    sys.exit(main())
