"""EZID, which registers identifiers: its text protocol, and a client for a given transport."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import quote

from headgate.core.errors import BadValue, ServiceRefused, ServiceUnavailable, Unavailable
from headgate.ingest.formats import anvl
from headgate.ingest.formats.ark import Ark, check_shoulder, parse_object
from headgate.ingest.formats.descriptions import Description
from headgate.ingest.formats.manifest import UNASSIGNED
from headgate.ingest.retries import Retries, seconds_of

#: Statuses after which the same request may succeed: too many requests, or a problem between us and EZID.
_BUSY = (429, 503)
_PASSING = (*_BUSY, 500, 502, 504)
#: Used as a status if there was no answer.
_LOST = 0


@dataclass(frozen=True, slots=True)
class EzidRequest:
    """A complete request."""

    method: str
    url: str
    #: Never shown: it contains the password.
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class EzidAnswer:
    """What came back."""

    status: int
    #: By their names in lower case.
    headers: Mapping[str, str]
    body: bytes


#: Sends a request. OSError or Unavailable: there was no answer, and it is unknown whether the request arrived.
Transport = Callable[[EzidRequest], EzidAnswer]


@dataclass(frozen=True, slots=True)
class EzidOutcome:
    """A parsed answer of EZID."""

    #: The content of its first line: the identifier, or the error.
    text: str
    succeeded: bool
    #: Whether the first line is from EZID at all; a proxy may answer too.
    understood: bool = True


#: An ingest job waits for the name, but EZID asks for few requests.
RETRIES = Retries(tries=4, pause=2.0, longest_pause=60.0)


# ---------------------------------------------------------------- the protocol


def record(
    description: Description,
    ark: Ark | None,
    local: Sequence[str],
    *,
    context: str = "",
    target: str = "",
    owner: str = "",
) -> dict[str, str]:
    """The metadata of an object for EZID; `target` is the landing page of its name."""
    block = [("who", description.who), ("what", description.what), ("when", description.when)]
    block += [("where", str(ark))] if ark else []
    block += [("where", "; ".join(local))]
    said = {
        # EZID decodes a value once, and the whole block is one value: its lines are not encoded separately.
        "erc": "".join(f"{label}: {' '.join(value.split()) or UNASSIGNED}\n" for label, value in block),
        "mrt.creator": context,
        "_target": target,
        "_owner": owner,
    }
    return {label: value for label, value in said.items() if value}


def target_url(base: str, ark: Ark) -> str:
    """Merritt's page for an object. For EZID it is encoded once more, like every value."""
    return f"{base.rstrip('/')}/m/{quote(str(ark), safe='')}"


def registration(base: str, ark: Ark, said: Mapping[str, str], headers: Mapping[str, str]) -> EzidRequest:
    """Register one of our names, or change its metadata. Repeating it has no further effect."""
    url = f"{base.rstrip('/')}/id/{quote(str(ark), safe=':/')}?update_if_exists=yes"
    return EzidRequest("PUT", url, headers, anvl.write(said.items()).encode())


def minting(base: str, shoulder: str, said: Mapping[str, str], headers: Mapping[str, str]) -> EzidRequest:
    """Ask for a new name. Repeating it mints two."""
    url = f"{base.rstrip('/')}/shoulder/{check_shoulder(shoulder)}"
    return EzidRequest("POST", url, headers, anvl.write(said.items()).encode())


def headers_of(user: str, password: str) -> dict[str, str]:
    """The content of every request."""
    secret = base64.b64encode(f"{user}:{password}".encode()).decode()
    return {"Authorization": f"Basic {secret}", "Content-Type": "text/plain; charset=UTF-8", "Accept": "text/plain"}


def read(answer: EzidAnswer) -> EzidOutcome:
    """The first line decides, whatever the status code."""
    line = answer.body.decode(errors="replace").partition("\n")[0]
    try:
        ((word, text),) = anvl.read(line)
    except (BadValue, ValueError):
        word, text = "", line
    if word not in ("success", "error"):
        return EzidOutcome(
            f"status {answer.status}, which is not an answer from EZID: {text[:200]!r}",
            succeeded=False,
            understood=False,
        )
    # After a bar there is the same object's name in another scheme.
    return EzidOutcome(text.partition(" | ")[0] if word == "success" else text, word == "success")


# ---------------------------------------------------------------- the client


class Ezid:
    """EZID at one address, with one account."""

    def __init__(
        self,
        base: str,
        headers: Mapping[str, str],
        send: Transport,
        sleep: Callable[[float], None],
        clock: Callable[[], datetime],
        retries: Retries | None = None,
    ) -> None:
        self._base = base
        self._headers = headers
        self._send = send
        self._sleep = sleep
        self._clock = clock
        self._retries = retries or RETRIES

    def name(self, known: Ark | None, shoulder: str, said: Mapping[str, str]) -> Ark:
        """The object's name, registered at EZID. It is minted there only if it has none yet."""
        return self.register(known, said) if known else self.mint(shoulder, said)

    def register(self, ark: Ark, said: Mapping[str, str]) -> Ark:
        """Register a name, or update its metadata. A lost answer is requested again."""
        request = registration(self._base, ark, said, self._headers)
        named = self._identifier(self._ask(request, lambda status, _: status in (_LOST, *_PASSING)))
        if named != ark:
            raise ServiceRefused("EZID", f"{ark} was requested, but it answered with {named}")
        return named

    def mint(self, shoulder: str, said: Mapping[str, str]) -> Ark:
        """A new name. If its answer is lost, the request is not repeated: that could mint a second name."""
        request = minting(self._base, shoulder, said, self._headers)
        return self._identifier(self._ask(request, lambda status, outcome: outcome.understood and status in _BUSY))

    def _ask(self, request: EzidRequest, may_repeat: Callable[[int, EzidOutcome], bool]) -> EzidOutcome:
        done = 0
        while True:
            done += 1
            answer, outcome = self._try(request)
            if outcome.succeeded:
                return outcome
            asked = seconds_of(answer.headers.get("retry-after", ""), self._clock())
            if done >= self._retries.tries or not may_repeat(answer.status, outcome):
                break
            if asked is not None and asked > self._retries.longest_pause:
                break
            self._sleep(self._retries.pause_after(done, asked))
        if outcome.understood and answer.status not in _PASSING:
            raise ServiceRefused("EZID", outcome.text)
        raise ServiceUnavailable("EZID", f"{outcome.text} ({request.method}, try {done})")

    def _try(self, request: EzidRequest) -> tuple[EzidAnswer, EzidOutcome]:
        try:
            answer = self._send(request)
        except (OSError, Unavailable) as error:
            return EzidAnswer(_LOST, {}, b""), EzidOutcome(str(error), succeeded=False, understood=False)
        return answer, read(answer)

    def _identifier(self, outcome: EzidOutcome) -> Ark:
        try:
            return parse_object(outcome.text)
        except BadValue as error:
            raise ServiceRefused("EZID", f"it answered with an invalid name: {error}") from error
