"""Variables and files for the command of a claim, and the data ids that it lists."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from headgate.cli.processes.run_folder import private_file
from headgate.core.errors import BadValue

if TYPE_CHECKING:
    from headgate.core.ledger.model import Claim, Port

#: Maximum number of bytes read from a file with data ids.
MOST_BYTES = 16 * 2**20


class ListedOutputs(NamedTuple):
    """The lists of a command."""

    #: The data ids by dataset; None: its job does not fan out.
    outputs: Mapping[str, list[str]] | None = None
    #: Why they cannot be read; empty: they can.
    fault: str = ""


def environment(claim: Claim, own: Mapping[str, str] | None = None) -> dict[str, str]:
    """Variables for the command. The job's own variables cannot override Headgate's."""
    told = {
        "HEADGATE_JOB": claim.job, "HEADGATE_DATAID": claim.dataid, "HEADGATE_ATTEMPT": str(claim.attempt),
        "HEADGATE_TOKEN": str(claim.token),
    }  # fmt: skip
    ports = {f"{prefix}_URI": port.uri for prefix, port in _prefixes(claim)}
    return {**claim.environment, **(own or {}), **ports, **told}


def secret_variables(claim: Claim) -> dict[str, str]:
    """Secrets as variables, if the user requested that."""
    return {
        f"{prefix}_SECRET_{variable_name(name)}": secret
        for prefix, port in _prefixes(claim)
        for name, secret in port.secrets.items()
    }


@contextmanager
def claim_files(folder: Path, claim: Claim) -> Iterator[dict[str, str]]:
    """Variables that name files: the claim; for each mapped input the data ids that the claim reads; and for each
    fan-out dataset a file that the command writes.
    """
    with ExitStack() as stack:
        files = {"HEADGATE_CLAIM_FILE": stack.enter_context(private_file(folder, "claim-", claim.to_json() + "\n"))}
        for prefix, port in _prefixes(claim):
            if port.dataids is None:
                continue
            fans_out = port.dataset in claim.outputs
            text = "" if fans_out else "".join(f"{dataid}\n" for dataid in port.dataids)
            path = stack.enter_context(private_file(folder, "ids-", text, ".txt"))
            if fans_out:
                path.unlink()  # The command creates it: forgetting this is not taken for an empty list.
            files |= {f"{prefix}_IDS_FILE": path}
            files.setdefault(f"HEADGATE_{'OUTPUT' if fans_out else 'INPUT'}_IDS_FILE", path)
        yield {name: str(path) for name, path in files.items()}


def listed_outputs(claim: Claim, files: Mapping[str, str]) -> ListedOutputs:
    """The command's lists, read before its files are removed."""
    outputs = {}
    for name, port in claim.outputs.items():
        if port.dataids is None:
            continue
        variable = f"HEADGATE_OUTPUT_{variable_name(name)}_IDS_FILE"
        try:
            outputs[name] = read_ids(files[variable])
        except FileNotFoundError:
            return ListedOutputs(fault=f"the command did not write the data ids of {name} to ${variable}")
        except (BadValue, OSError) as error:
            return ListedOutputs(fault=f"${variable} cannot be read: {error}")
    return ListedOutputs(outputs or None)


def read_ids(file: str) -> list[str]:
    """The data ids in a file, one per line, without empty lines; - reads standard input."""
    if file == "-":
        content = sys.stdin.buffer.read(MOST_BYTES + 1)
    else:
        with Path(file).open("rb") as source:
            content = source.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise BadValue("file", file, f"is larger than {MOST_BYTES:,} bytes; write one data id per line")
    try:
        lines = content.decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise BadValue("file", file, f"is not UTF-8: byte {error.start}") from None
    return [line.strip() for line in lines if line.strip()]


def variable_name(name: str) -> str:
    """A dataset's name in the form for variables: capitals, digits and underscores."""
    return re.sub(r"[^A-Z0-9]", "_", name.upper())


def _prefixes(claim: Claim) -> Iterator[tuple[str, Port]]:
    for kind, found in (("INPUT", claim.inputs), ("OUTPUT", claim.outputs)):
        for name, port in found.items():
            yield f"HEADGATE_{kind}_{variable_name(name)}", port
