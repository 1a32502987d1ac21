"""A pipeline with a secret, used by commands as a user runs them."""

import secrets
from base64 import urlsafe_b64encode
from typing import Any

from tests.cli.commands import Headgate

PIPELINE = """
[dataset.raw]
uri = "db://raw"
[dataset.raw.secrets]
pass-word = "env:RAW_PASSWORD"
[dataset.tidy]
[job.clean]
inputs = ["raw"]
outputs = ["tidy"]
"""


class Site:
    """A store, a ring, a job with its key in a file, and all recorded output."""

    def __init__(self, command: Headgate) -> None:
        self.command = command
        self.folder = command.folder
        #: Text that must not be found anywhere: no other test uses it.
        self.canary = f"c4n4ry{secrets.token_hex(8)}"
        self.said: list[str] = []
        (self.folder / "pipeline.toml").write_text(PIPELINE)
        self.ring: dict[str, Any] = {"HEADGATE_MASTER_KEY_FILE": str(self.folder / "ring")}
        self.run("keys", "rotate", **self.ring)
        self.define()
        made = command("keys", "new", "clean", "--yes", "-vv", "--json", **self.ring)
        self.said.append(made.err)
        self.key: str = made.json["key"]
        self.run("data", "publish", "raw", "1..5")

    def define(self) -> str:
        return self.run("define", "pipeline.toml", RAW_PASSWORD=self.canary, **self.ring)

    def run(self, *words: str, code: int = 0, **environment: Any) -> str:
        """Run a command with its most verbose output, and record the output."""
        at = words.index("--") if "--" in words else len(words)
        done = self.command(*words[:at], "-vv", *words[at:], **environment)
        assert done.code == code, done.err
        self.said.append(done.out + done.err)
        return done.out

    def use_key_file(self) -> None:
        file = self.folder / "clean.key"
        file.write_text(self.key + "\n")
        file.chmod(0o600)
        (self.folder / "headgate.toml").write_text(f'job_key_file = "{file}"\n')

    def needles(self) -> list[bytes]:
        """The texts to search for: the secret, plain and in base64, the key, and the master key."""
        words = [self.canary, self.key.removeprefix("hgk_"), (self.folder / "ring").read_text().strip()[3:]]
        return [*(word.encode() for word in words), urlsafe_b64encode(self.canary.encode())[:16]]

    def found_in(self, content: bytes) -> list[bytes]:
        return [needle for needle in self.needles() if needle in content]
