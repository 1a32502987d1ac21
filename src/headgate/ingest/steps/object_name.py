"""An object's name, fixed before anything else can fail: found by its local ids, given, or minted."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from headgate.core.errors import BadValue, ObjectRefused
from headgate.core.queue.model import Identifiers, IngestJob
from headgate.ingest.context import Context, now
from headgate.ingest.formats import ezid
from headgate.ingest.formats.ark import mint_for, parse_object
from headgate.ingest.formats.descriptions import Description
from headgate.ingest.profiles.profile import Profile
from headgate.ingest.sources.fetch import Fetcher


def name_object(
    context: Context, job: IngestJob, profile: Profile, describe: Callable[[str], Description], said: Identifiers
) -> Identifiers:
    """The ARK and the local ids of a job's object, recorded in the queue. A repeat returns the same.

    `describe`: returns the description of the object with that ARK; of a new one for an empty ARK. `said`: its names in
    the depositor's own files.
    """
    local = tuple(dict.fromkeys((*job.identifiers.local, *said.local)))
    demanded = _demanded(job, said)
    # The job may have received its own name before a restart.
    given = demanded or job.identifiers.primary or _found(context, profile, local)
    ark = given or _minted(context, job, profile, describe(""), local)
    chosen = context.inventory.claim_local_ids(profile.owner, local, ark)
    if demanded and chosen != demanded:
        raise ObjectRefused(demanded, f"its local id {', '.join(local)} belongs to {chosen}")
    _check_owner(context, chosen, profile.owner, new=not given and chosen == ark)
    identifiers = Identifiers(chosen, local)
    if identifiers != job.identifiers:
        context.queue.change(job, identifiers=identifiers)
    if profile.minter.kind != "local":  # Describing an object requires reading the storage.
        register(context, profile, chosen, local, describe(chosen))
    return identifiers


def register(context: Context, profile: Profile, ark: str, local: Sequence[str], description: Description) -> None:
    """Register an object's name at EZID, if the profile requires it. Repeating it has no further effect."""
    if profile.minter.kind != "local":
        _client(context, profile).register(parse_object(ark), _record(profile, description, ark, local))


def _demanded(job: IngestJob, said: Identifiers) -> str:
    """The name requested by the depositor: in the submission, or in a file of the payload."""
    supplied = str(job.configuration.get("supplied_id") or "")
    if supplied and said.primary not in ("", supplied):
        raise BadValue(
            "primary id", said.primary, (f"of mrt-erc.txt differs from the one that was submitted, {supplied}")
        )
    return supplied or said.primary


def _found(context: Context, profile: Profile, local: Sequence[str]) -> str:
    return next(iter(context.inventory.known_local_ids(profile.owner, local).values()), "")


def _minted(context: Context, job: IngestJob, profile: Profile, description: Description, local: Sequence[str]) -> str:
    if profile.minter.kind != "ezid":
        return str(mint_for(job.id, profile.minter.shoulder, context.options.minter_key))
    said = _record(profile, description, "", local)
    minted = str(_client(context, profile).mint(profile.minter.shoulder, said))
    # It exists from now on: it must be registered before anything else happens.
    context.queue.change(job, identifiers=Identifiers(minted, job.identifiers.local))
    return minted


def _check_owner(context: Context, ark: str, owner: str, *, new: bool) -> None:
    known = context.inventory.owner_and_version(ark)
    if known is not None and new:
        raise ObjectRefused(ark, "a depositor has already given this name to another object; submit it again")
    if known is not None and known[0] != owner:
        raise ObjectRefused(ark, f"its owner is not {owner}")


def _record(profile: Profile, description: Description, ark: str, local: Sequence[str]) -> dict[str, str]:
    minter = profile.minter
    name = parse_object(ark) if ark else None
    target = ezid.target_url(minter.target_url, name) if minter.target_url and name else ""
    return ezid.record(
        description, name, local, context=minter.context, target=target, owner=minter.ezid_owner
    )  # fmt: skip


def _client(context: Context, profile: Profile) -> ezid.Ezid:
    minter = profile.minter
    headers = ezid.headers_of(minter.ezid_user, context.secret(minter.ezid_password))
    return ezid.Ezid(minter.ezid_url, headers, _transport(context.service(minter.ezid_url)), time.sleep, now)


def _transport(fetcher: Fetcher) -> ezid.Transport:
    def send(request: ezid.EzidRequest) -> ezid.EzidAnswer:
        built = fetcher.client.build_request(
            request.method, request.url, content=request.body, headers=dict(request.headers)
        )
        answer = fetcher.exchange(built)
        return ezid.EzidAnswer(
            answer.status_code, {name.lower(): value for name, value in answer.headers.items()}, answer.content
        )

    return send
