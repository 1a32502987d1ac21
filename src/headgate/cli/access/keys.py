"""Commands for the keys of jobs and the master keys of administrators. No key is ever an argument."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TextIO

import click

from headgate.cli.access.holders import confirm_holders, holder_options
from headgate.cli.terminal.console import Console
from headgate.cli.terminal.options import JOB_NAME, InOrder, common, number_option
from headgate.cli.terminal.output import to_json
from headgate.core.errors import BadValue, HoldersUnconfirmed, WrongKey
from headgate.core.values.documents import read_document
from headgate.core.values.plurals import plural


@click.group("keys", cls=InOrder)
def keys() -> None:
    """Create, rotate and use the keys that decrypt secrets.

    A job's key decrypts the secrets of the datasets that the job reads and makes, and no others. Give it to the workers
    in HEADGATE_JOB_KEY or in a file that HEADGATE_JOB_KEY_FILE names, never on a command line, which other users can
    see. With a key ring (HEADGATE_MASTER_KEY_FILE) administrators encrypt secrets and create keys for every job.

    \b
    Examples:
      headgate keys rotate              add a master key to the key ring
      headgate keys new clean           create a key for a job, and print it
      headgate keys new clean --beside  create a second key; both work
      headgate job next clean --json | headgate keys open
      headgate keys rewrap              encrypt all with the newest master key

    \b
    A quick look, after headgate init:
      printf '[dataset]\\nraw = {}\\ntidy = {}\\n' >quick.toml
      printf '[job.clean]\\ninputs = ["raw"]\\noutputs = ["tidy"]\\n' >>quick.toml
      export HEADGATE_MASTER_KEY_FILE=quick.ring
      headgate define quick.toml && headgate keys rotate
      headgate keys new clean
    """


@keys.command("new")
@JOB_NAME
@click.option("--passphrase", is_flag=True, help="Derive the key from a passphrase on standard input.")
@click.option("--beside", is_flag=True, help="Keep the old key valid until `keys retire`.")
@click.option("--lost", is_flag=True, help="Discard the old key, which was lost. Its secrets must be set again.")
@holder_options
@common
def new(
    console: Console, /, job_name: str, holders: Sequence[str], *, passphrase: bool, yes: bool, **how: bool
) -> None:
    """Create a key for JOB, and print it. It is stored nowhere and cannot be shown again.

    Refused if the job has a key. To replace a key without downtime, create one with --beside, give it to all workers,
    then run `keys retire`. This needs the key ring, or the old key in HEADGATE_JOB_KEY. If the key is lost and there is
    no key ring, use --lost and set the secrets again.

    Datasets whose secrets JOB could not read before are listed and must be confirmed: at the terminal, with
    --new-holder for each, or with --yes for all.
    """
    given = _passphrase() if passphrase else None
    with console.gate() as gate:
        try:
            made = gate.secrets.new_key(job_name, passphrase=given, holders=holders, **how)
        except HoldersUnconfirmed as refused:
            confirmed = confirm_holders(console, refused.holders, holders, yes=yes)
            made = gate.secrets.new_key(job_name, passphrase=given, holders=confirmed, **how)
    document = {"job": made.job, "generation": made.generation, "warnings": made.warnings}
    if given is None:
        console.answer({**document, "key": made.key}, lambda: made.key)
    else:
        console.answer(document, lambda: f"created  key {made.generation} of {made.job}, from the passphrase")
    console.say("it is shown only once; give it to the job's workers in HEADGATE_JOB_KEY or HEADGATE_JOB_KEY_FILE")
    console.say_notes(made.warnings)


@keys.command("retire")
@JOB_NAME
@common
def retire(console: Console, job_name: str) -> None:
    """Invalidate all keys of JOB except the newest."""
    count = console.ask(lambda gate: gate.secrets.retire(job_name))
    console.answer({"job": job_name, "retired": count}, lambda: f"retired  {plural(count, 'key')} of {job_name}")


@keys.command("open", short_help="Decrypt the secrets in the JSON of a claim.")
@click.argument("file", type=click.File("r", encoding="utf-8"), default="-", metavar="[FILE]")
@common
def open_claim(console: Console, file: TextIO) -> None:
    """Decrypt the secrets in the JSON of a claim, from FILE or standard input, with the job's key.

    Prints the same JSON with its secrets in plain text. No store is needed. Exit code 77 if the key does not match.

    \b
    Example:
      export HEADGATE_JOB_KEY_FILE=clean.key
      headgate job next clean --json | headgate keys open
    """
    from headgate.service.secrets.use_cases import key_of, open_document

    key = key_of(console.settings)
    if not key:
        raise WrongKey("", "there is no key: set HEADGATE_JOB_KEY or HEADGATE_JOB_KEY_FILE")
    try:
        document = read_document(file.read())
    except ValueError as error:
        raise BadValue("claim", file.name, f"is not usable JSON: {error}") from None
    opened = open_document(document, key)
    console.answer(opened, lambda: to_json(opened))


@keys.command("rotate")
@click.option("--lost", is_flag=True, help="Discard the lost key ring of the store, and what only it decrypts.")
@common
def rotate(console: Console, *, lost: bool) -> None:
    """Add a master key to the key ring (HEADGATE_MASTER_KEY_FILE). The file is created if needed.

    The new key encrypts from now on; older ones still decrypt. Copy the file to every administrator, then run
    `keys rewrap`.

    Refused if the store's secrets are encrypted with master keys that the file does not contain; the error lists what
    would be lost. With --lost the store discards that key ring: copies of secrets that only it decrypts are removed and
    must be set again. The keys of jobs are not affected.
    """
    number = console.ask(lambda gate: gate.secrets.rotate(lost=lost))
    console.answer({"master_key": number}, lambda: f"added  master key v{number}")
    console.say("keep the file safe, and a backup of it apart from the store: without it no admin can open any secret")


@keys.command("rewrap")
@number_option("--batch", 10_000, 100, "Number of secrets in a transaction.")
@common
def rewrap(console: Console, batch: int) -> None:
    """Encrypt everything with the newest master key. Older master keys become useless.

    Workers can continue meanwhile. After an interruption everything is still readable; run the command again.
    """
    count = console.ask(lambda gate: gate.secrets.rewrap(batch))
    console.answer({"rewrapped": count}, lambda: f"rewrapped  {count}")
    console.say("older master keys are no longer accepted; you can remove them from the ring's file")


def _passphrase() -> str:
    if sys.stdin.isatty():
        return str(click.prompt("Passphrase", hide_input=True, confirmation_prompt=True, err=True))
    return sys.stdin.readline().rstrip("\n")
