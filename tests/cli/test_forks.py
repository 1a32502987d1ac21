"""A stop signal that arrives while a process forks is heard, and nothing is printed about it."""

import subprocess
import sys

SCRIPT = """
import os, signal
from headgate.cli.processes.stopping import Stops, fork

def hook():
    os.kill(os.getpid(), signal.SIGTERM)
    for _ in range(1000):
        pass

os.register_at_fork(after_in_parent=hook)
with Stops() as stops:
    if fork() == 0:
        os._exit(0)
    print("not heard")
"""


def test_a_stop_signal_amid_a_fork_ends_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (143, "", "")
