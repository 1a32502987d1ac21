"""Commands for keys: those of jobs, which open secrets, and the master keys of admins. No key is ever an argument."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

import click

from headgate.cli.holders import confirm_holders, holder_options
from headgate.cli.output import to_json
from headgate.cli.session import InOrder, Session, common
from headgate.core.documents import read_document
from headgate.core.errors import BadValue, HoldersUnconfirmed, WrongKey

if TYPE_CHECKING:
    from headgate.service.secrets import NewKey


@click.group("keys", cls=InOrder)
def keys() -> None:
    """Make, change and use the keys that open secrets.

    A job's key opens the secrets of what the job reads and makes, and no others. Give it to its workers in
    HEADGATE_JOB_KEY, or in a file named by HEADGATE_JOB_KEY_FILE; never on a command line, which everybody can read.
    With a ring of master keys (HEADGATE_MASTER_KEY_FILE) admins seal secrets and make keys for every job.

    \b
    Examples:
      headgate keys rotate                          a first or another master key, into the ring's file
      headgate keys new clean                       a key for a job, shown once
      headgate keys new clean --beside              another one; the old one opens until: headgate keys retire clean
      headgate job next clean --json | headgate keys open
      headgate keys rewrap                          all comes under the newest master key

    \b
    A quick look, in a new folder:
      printf '[dataset.raw]\\n[dataset.tidy]\\n[job.clean]\\ninputs = ["raw"]\\noutputs = ["tidy"]\\n' > quick.toml
      headgate define quick.toml
      export HEADGATE_MASTER_KEY_FILE=quick.ring
      headgate keys rotate
      headgate keys new clean
    """


@keys.command("new")
@click.argument("job_name", metavar="JOB")
@click.option("--passphrase", is_flag=True, help="Take a passphrase from standard input instead of making a key.")
@click.option("--beside", is_flag=True, help="The old key stays good until `keys retire`.")
@click.option("--lost", is_flag=True, help="Nobody has the old key: it opens nothing any more.")
@holder_options
@common
@click.pass_obj
def new(
    session: Session, /, job_name: str, holders: Sequence[str], *, passphrase: bool, yes: bool, **how: bool
) -> None:
    """Make a key for JOB, and show it once: it is kept nowhere.

    Refused when the job has a key. To change over without a stop: --beside, give the new key to all workers, then
    `keys retire`. That takes the ring of master keys, or the old key in HEADGATE_JOB_KEY. When the key is lost and
    there is no master key, --lost makes a new one, and the secrets have to be set again.

    Datasets whose secrets JOB does not hold yet are listed, and have to be confirmed: at the terminal, with
    --new-holder for each, or with --yes for all.
    """
    given = _passphrase() if passphrase else None
    with session.gate() as gate:
        try:
            made = gate.secrets.new_key(job_name, passphrase=given, holders=holders, **how)
        except HoldersUnconfirmed as refused:
            confirmed = confirm_holders(session, refused.holders, holders, yes=yes)
            made = gate.secrets.new_key(job_name, passphrase=given, holders=confirmed, **how)
    if given is None:
        document = {"job": made.job, "generation": made.generation, "key": made.key, "warnings": made.warnings}
        session.answer(document, lambda: made.key)
    else:
        document = {"job": made.job, "generation": made.generation, "warnings": made.warnings}
        session.answer(document, lambda: f"made  key {made.generation} of {made.job}, from the passphrase")
    _tell(session, made)


@keys.command("retire")
@click.argument("job_name", metavar="JOB")
@common
@click.pass_obj
def retire(session: Session, job_name: str) -> None:
    """End all keys of JOB but the newest: they open nothing any more."""
    with session.gate() as gate:
        count = gate.secrets.retire(job_name)
    session.answer({"job": job_name, "retired": count}, lambda: f"retired  {count} key(s) of {job_name}")


@keys.command("open")
@click.argument("file", type=click.File("r", encoding="utf-8"), default="-", metavar="[FILE]")
@common
@click.pass_obj
def open_claim(session: Session, file: TextIO) -> None:
    """Open the secrets in a claim's JSON, from FILE or standard input, with the job's key; asks no store.

    Prints the same JSON with its secrets plain. Exit code 77 when the key does not open them.

    \b
    Example:
      headgate job next clean --json | HEADGATE_JOB_KEY_FILE=clean.key headgate keys open
    """
    from headgate.service.secrets import key_of, open_document

    key = key_of(session.settings)
    if not key:
        raise WrongKey("", "there is no key: give the job's in HEADGATE_JOB_KEY or HEADGATE_JOB_KEY_FILE")
    try:
        document = read_document(file.read())
    except ValueError as error:
        raise BadValue("claim", file.name, f"is no JSON that can be used: {error}") from None
    opened = open_document(document, key)
    session.answer(opened, lambda: to_json(opened))


@keys.command("rotate")
@click.option("--lost", is_flag=True, help="The store's ring is lost: forget all that only it opens.")
@common
@click.pass_obj
def rotate(session: Session, *, lost: bool) -> None:
    """Add a new master key to the ring's file (HEADGATE_MASTER_KEY_FILE), which is made if it is not there.

    It seals from now on; the older ones still open. Bring the file to every admin, then run `keys rewrap`.

    Refused when the store's secrets are sealed with master keys that the file does not have; the message lists what
    would be lost with them. With --lost the store forgets that ring: copies of secrets that only it opens are
    dropped, and have to be set again. Jobs' own keys open what they opened before.
    """
    with session.gate() as gate:
        number = gate.secrets.rotate(lost=lost)
    session.answer({"master_key": number}, lambda: f"added  master key v{number}")
    session.say("keep the file safe, and a copy of it apart from the store: without it no admin can open anything")


@keys.command("rewrap")
@click.option("--batch", type=click.IntRange(1, 10_000), default=100, show_default=True, help="So many at a time.")
@common
@click.pass_obj
def rewrap(session: Session, batch: int) -> None:
    """Bring all that is under older master keys under the newest. Older ones open nothing afterwards.

    Workers go on meanwhile. Interrupted, everything stays readable with the ring; run it again to finish.
    """
    with session.gate() as gate:
        count = gate.secrets.rewrap(batch)
    session.answer({"rewrapped": count}, lambda: f"rewrapped  {count}")
    session.say("older master keys are refused from now on; they may be taken out of the ring's file")


def _passphrase() -> str:
    if sys.stdin.isatty():
        return str(click.prompt("Passphrase", hide_input=True, confirmation_prompt=True, err=True))
    return sys.stdin.readline().rstrip("\n")


def _tell(session: Session, made: NewKey) -> None:
    session.say("it is shown this once; give it to the job's workers in HEADGATE_JOB_KEY or HEADGATE_JOB_KEY_FILE")
    for line in made.warnings:
        session.say(f"headgate: note: {line}")
