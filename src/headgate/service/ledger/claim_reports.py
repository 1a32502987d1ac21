"""A worker's reports: which claim they are about, and texts without secrets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headgate.core.errors import BadValue
from headgate.core.ledger.model import EXTERNAL, MOST_PARTS, Claim
from headgate.core.values.log_text import secret_forms
from headgate.core.values.names import check_name
from headgate.core.values.redaction import hide, hide_parts
from headgate.service.checks import check_token
from headgate.service.leases.renewal import ClaimHold

ClaimLike = Claim | ClaimHold


def reference(claim: ClaimLike | str, dataid: str | None, token: object) -> tuple[str, Any, Any]:
    """The identity of a claim: job, data id and token."""
    if isinstance(claim, ClaimHold):
        claim = claim.claim
    if isinstance(claim, Claim):
        return claim.job, claim.dataid, claim.token if token is None else token
    return claim, dataid, token


def check_reference(claim: ClaimLike | str, dataid: str | None, token: object) -> tuple[str, str, int]:
    """The same; BadValue for an invalid one."""
    job, dataid, token = reference(claim, dataid, token)
    if isinstance(claim, Claim | ClaimHold):
        return job, dataid, check_token(token)
    if claim == EXTERNAL:
        raise BadValue("job", claim, "is reserved for data produced elsewhere, which is published, not claimed")
    return check_name("job", claim), check_name("dataid", dataid), check_token(token)


def check_outputs(outputs: object) -> dict[str, list[str]] | None:
    """The data ids that a worker lists, each once, by dataset; BadValue for invalid ones."""
    if outputs is None:
        return None
    if not isinstance(outputs, Mapping):
        raise BadValue("outputs", outputs, 'is not a mapping of datasets to data ids: {"parts": ["a", "b"]}')
    found = {}
    for name, dataids in outputs.items():
        if isinstance(dataids, str) or not isinstance(dataids, Iterable):
            raise BadValue(f"outputs.{name}", dataids, "is not a list of data ids")
        listed = list(dict.fromkeys(check_name("dataid", each) for each in dataids))
        if len(listed) > MOST_PARTS:
            raise BadValue(f"outputs.{name}", len(listed), f"are too many; at most {MOST_PARTS:,} are allowed")
        found[check_name("dataset", name)] = listed
    return found


def without_secrets(claim: ClaimLike | str, message: object) -> str:
    """A worker's text, with the secrets of its claim masked: a driver may repeat a password in its error, or a URL that
    contains it.
    """
    text = "" if message is None else str(message)
    if isinstance(claim, ClaimHold):
        claim = claim.claim
    if isinstance(claim, str):
        return text
    secrets = claim.secrets()
    return hide_parts(hide(text, secrets), secret_forms(secrets)) if secrets else text
