"""The first output of a service that a test started."""

import json
import subprocess
from typing import Any


def announced(process: "subprocess.Popen[str] | subprocess.Popen[bytes]") -> dict[str, Any]:
    """The first line of its output. A service that ends without printing one is cleaned up."""
    assert process.stdout
    line = process.stdout.readline()
    if not line:
        process.kill()
        process.stdout.close()
        raise AssertionError(f"the service ended with exit code {process.wait()} before it printed its address")
    said: dict[str, Any] = json.loads(line)
    return said
