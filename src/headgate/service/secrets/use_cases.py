"""Secrets of datasets and keys of jobs: the use cases. The store only gets sealed copies and proofs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from headgate.core.errors import BadValue, NotAllowed, Refused, UnknownName, WrongKey
from headgate.core.values.names import check_name
from headgate.core.values.plurals import plural
from headgate.service.secrets.custody import CustodyRecords
from headgate.service.secrets.holders import Allowed, check_confirmed, new_holders, users_of
from headgate.service.secrets.keyring import KEY_SETTING, RING_SETTING, Ring, add_to_ring, read_private, read_ring
from headgate.settings import Settings
from headgate.telemetry import event

if TYPE_CHECKING:
    from headgate.core.access.credentials import Custody, CustodyChange, MasterWrap
    from headgate.service.secrets.sealing import KeyText, Sealer

#: Number of wraps that are renewed in one transaction.
REWRAP_BATCH = 100
#: Number of wraps that are checked to find out what is lost with a ring.
MOST_LOST = 1000
SECRET_LENGTH = 10_000
#: A shorter passphrase can be guessed.
PASSPHRASE_LENGTH = 12
#: While workers change from one key to the next there are two; no more.
MOST_KEYS = 2
NO_KEY = "it has no key; create one with: headgate keys new"

#: By dataset and name.
Texts = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class NewKey:
    """A new key."""

    job: str  #: Name of the job.
    generation: int  #: Number of the key, from 1.
    #: The key itself, to be passed to the job's workers; it is not stored.
    key: str = field(repr=False)
    #: Secrets that it does not open yet.
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Opened:
    """The secrets of a job, opened with its key."""

    #: The version of each secret, as named by a claim.
    versions: Texts
    plain: Texts = field(repr=False)


class Secrets:
    """Secrets of datasets, keys of jobs, and master keys; `gate.secrets`.

    :param job: Name of the job.
    :param holders: Jobs that may read secrets they could not read before, each as DATASET/JOB.
    """

    def __init__(self, custody: CustodyRecords, settings: Settings) -> None:
        #: Sealed copies, and proofs of keys.
        self.custody = custody
        self._settings = settings
        self._used: tuple[str, KeyText] | None = None

    # ---------------------------------------------------------------- keys

    def new_key(
        self,
        job: str,
        *,
        passphrase: str | None = None,
        beside: bool = False,
        lost: bool = False,
        holders: Iterable[str] = (),
    ) -> NewKey:
        """Create a key for a job and return it. Its text is shown here only.

        Refused if the job has a key, unless `beside` or `lost` determines what happens to it. Raises
        HoldersUnconfirmed, and changes nothing, if the job would read secrets that it could not read before and
        `holders` does not name them.

        :param passphrase: Use this passphrase as the key (default: a random key).
        :param beside: Keep the old key valid until `retire`, so that workers can change over one by one.
        :param lost: The old key is lost: secrets are sealed again if the master key is available, else dropped.
        """
        from headgate.service.secrets.sealing import plan_key

        if passphrase is not None and len(passphrase) < PASSPHRASE_LENGTH:
            raise BadValue("passphrase", "***", f"is too short; use at least {PASSPHRASE_LENGTH} characters")
        while True:
            custody = self.custody.job_custody(check_name("job", job))
            _check_room(custody, beside=beside, lost=lost)
            sealer = self._sealer(custody)
            change, key, warnings = plan_key(sealer, passphrase, lost=lost)
            if self._applied(sealer, change, holders):
                break
        generation = max(key.generation for key in change.keys or ())
        event("secrets.made", job=job, generation=generation)
        return NewKey(job, generation, key if passphrase is None else passphrase, tuple(warnings))

    def retire(self, job: str) -> int:
        """Make all keys of a job but the newest invalid. Returns how many there were."""
        from headgate.service.secrets.sealing import plan_retirement

        while True:
            custody = self.custody.job_custody(check_name("job", job))
            if len(custody.keys) < 2:
                return 0
            if self.custody.change_custody(custody, plan_retirement(custody)):
                event("secrets.retired", job=job, count=len(custody.keys) - 1)
                return len(custody.keys) - 1

    def rotate(self, *, lost: bool = False) -> int:
        """Add a master key to the key ring's file, which is created if it is missing. Returns its number.

        Refused if the store's secrets are sealed with master keys that the file does not contain.

        :param lost: The missing master keys are lost: forget them, and every secret that only they could open.
        """
        known = self.custody.masters()

        def check(ring: Ring | None) -> int:
            is_ours = _is_ring_of(ring, known)
            if not lost and not is_ours:
                raise WrongKey("", self._lost_text(ring, known))
            if lost and is_ours:
                raise Refused(
                    f"{self._ring_file()} is the ring of this store, so nothing is lost. Rotate without --lost"
                )
            return max(known, default=0)

        ring = add_to_ring(self._ring_file(), check)
        if lost:
            dropped = self.custody.forget_masters()
            self._know(ring)
            self.custody.refuse_masters(ring.newest)
            event("secrets.forgotten", count=dropped, number=ring.newest)
        event("secrets.rotated", number=ring.newest)
        return ring.newest

    def rewrap(self, batch: int = REWRAP_BATCH) -> int:
        """Rewrap all secrets with the newest master key, and return how many. Older master keys become invalid.

        If it is interrupted, each secret is under one key or the other; run it again.

        :param batch: Secrets in one transaction.
        """
        from headgate.service.secrets import crypto

        ring = self._proven(read_ring(self._ring_file()))
        if len(ring) < 2:
            raise Refused(
                "the ring has only one master key, so there is nothing to rewrap to. First run: headgate keys rotate"
            )

        def renewed(old: MasterWrap) -> MasterWrap:
            try:
                key = crypto.unwrap(_known(ring, old), old.wrap)
            except crypto.CANNOT_OPEN:
                raise WrongKey(old.job, _closed_text(old)) from None
            return replace(old, master_id=ring.newest, wrap=crypto.wrap(ring.kek(ring.newest, old.job), key))

        count = 0
        while found := self.custody.master_wraps(ring.newest, batch):
            pairs = [(old, renewed(old)) for old in found]
            self._know(ring)
            count += self.custody.rewrap(pairs)
        self.custody.refuse_masters(ring.newest)
        event("secrets.rewrapped", count=count, number=ring.newest)
        return count

    # ---------------------------------------------------------------- secrets

    def new_holders(
        self, uses: Mapping[str, Iterable[str]], named: Iterable[str] = (), allowed: Allowed | None = None
    ) -> list[str]:
        """The jobs that would become holders of secrets, as DATASET/JOB, if they used these datasets.

        `named`: datasets that are about to get secrets; the jobs that use them count too. `allowed`: the jobs that may
        hold the secrets of a dataset, if that is about to change.
        """
        every = users_of(self.custody, named) | {job: list(datasets) for job, datasets in uses.items()}
        return new_holders(self.custody, self._sealer, every, named, allowed or {})

    def check(self, dataset: str, secrets: Mapping[str, str], users: Iterable[str] = ()) -> None:
        """Raise the error that `set` would raise. Neither the dataset nor the jobs that use it have to exist."""
        from headgate.core.access.credentials import Custody
        from headgate.service.secrets.sealing import plan_secrets

        try:
            custody = self.custody.dataset_custody(dataset)
        except UnknownName:
            custody = Custody(dataset, "", {dataset: {}}, (), (), 0)
        keys = {(key.job, key.generation): key for key in custody.keys}
        for job in users:
            with suppress(UnknownName):
                keys |= {(key.job, key.generation): key for key in self.custody.job_custody(job).keys}
        if secrets:
            plan_secrets(self._sealer(replace(custody, keys=tuple(keys.values()))), secrets)

    def set(self, dataset: str, secrets: Mapping[str, str], holders: Iterable[str] = ()) -> tuple[list[str], list[str]]:
        """Set the secrets of a dataset. Returns what changed, and warnings; both name secrets and never show them.

        :param dataset: Name of the dataset.
        :param secrets: All its secrets, by name.
        """
        from headgate.service.secrets.sealing import plan_secrets

        while True:
            custody = self.custody.dataset_custody(dataset)
            if not secrets and not custody.secrets[dataset]:
                return [], []
            sealer = self._sealer(custody)
            change, lines, warnings = plan_secrets(sealer, secrets)
            if self._applied(sealer, change, holders):
                return lines, warnings

    def share(self, job: str, holders: Iterable[str] = ()) -> list[str]:
        """Let the keys of a job open the secrets of all its datasets, new ones included. Returns a line for each
        missing secret.
        """
        while True:
            custody = self.custody.job_custody(job)
            if not custody.keys:
                return []
            from headgate.service.secrets.sealing import plan_sharing

            sealer = self._sealer(custody)
            change, warnings = plan_sharing(sealer)
            if self._applied(sealer, change, holders):
                return warnings

    def key(self, given: str | None) -> str:
        """Return the given key, else that of the settings; empty if there is none."""
        return key_of(self._settings) if given is None else given.strip()

    def open(self, job: str, key: str) -> Opened:
        """Open the secrets of a job. Raises WrongKey if the key is not the job's, or does not open one of them."""
        custody = self.custody.job_custody(job)
        text = self._text(key)
        proven = [each.generation for each in custody.keys if text.prove(each) is not None]
        if not proven:
            raise WrongKey(job, "the key does not belong to this job" if custody.keys else f"{NO_KEY} {job}")
        own = replace(custody, sealed=tuple(c for c in custody.sealed if c.job == job and c.generation in proven))
        return _opened(own, text)

    def sealed(self, job: str) -> Texts:
        """Return the secrets of a job in the form that `keys open` reads."""
        custody = self.custody.job_custody(job)
        salts = {key.generation: key.salt for key in custody.keys}
        found: dict[str, dict[str, str]] = {dataset: {} for dataset in custody.secrets}
        for dataset, versions in custody.secrets.items():
            for name in versions:
                copies = [copy for copy in custody.copies(dataset, name) if copy.job == job]
                words = [copy.envelope(salts[copy.generation]) for copy in copies if copy.generation in salts]
                if words:
                    found[dataset][name] = " ".join(words)
        return found

    def _sealer(self, custody: Custody) -> Sealer:
        from headgate.service.secrets.sealing import Sealer

        path, key = self._settings[RING_SETTING], self.key(None)
        ring = self._proven(read_ring(path), custody) if path else None
        return Sealer(custody, ring, self._text(key) if key else None)

    def _proven(self, ring: Ring, custody: Custody | None = None) -> Ring:
        """Return the ring. Raises WrongKey if it is not the one that this store's secrets are sealed with."""
        from headgate.service.secrets.sealing import check_custody, check_ring

        known = self.custody.masters()
        check_ring(ring, known)
        if custody is not None:
            check_custody(ring, known, custody)
        return ring

    def _know(self, ring: Ring) -> None:
        """Record the newest key of the ring in the store, before anything is sealed with it."""
        from headgate.service.secrets.sealing import check_ring

        check_ring(ring, {ring.newest: self.custody.know_master(ring.newest, ring.check(ring.newest))})

    def _lost_text(self, ring: Ring | None, known: Mapping[int, str]) -> str:
        """Explain why a missing or foreign ring cannot be rotated, and what would be lost without it."""
        keys = ", ".join(f"v{number}" for number in sorted(known))
        file = f"{self._ring_file()} does not exist" if ring is None else f"{self._ring_file()} is another ring"
        try:
            lost = _lost_with(self.custody.master_wraps(max(known) + 1, MOST_LOST))
        except NotAllowed:
            lost = "only an admin's API token can list what"
        return (
            f"secrets of this store are sealed with {keys}, but {file}. Restore the ring from its backup. Without a "
            f"backup, this is lost: {lost}. To continue without it, run headgate keys rotate --lost and set the "
            "secrets again"
        )

    def _text(self, key: str) -> KeyText:
        from headgate.service.secrets.sealing import KeyText

        if self._used is None or self._used[0] != key:
            self._used = (key, KeyText(key))
        return self._used[1]

    def _applied(self, sealer: Sealer, change: CustodyChange, confirmed: Iterable[str]) -> bool:
        new = sealer.new_holders(change)
        check_confirmed(new, confirmed)
        change = replace(change, holders=tuple(new))
        if change and sealer.ring is not None:
            self._know(sealer.ring)
        return not change or self.custody.change_custody(sealer.custody, change)

    def _ring_file(self) -> str:
        path = self._settings[RING_SETTING]
        if not path:
            raise BadValue(RING_SETTING, "", "is not set; set HEADGATE_MASTER_KEY_FILE to the file of master keys")
        return path


def key_of(settings: Settings) -> str:
    """The job's key in the settings; empty for none."""
    if settings["job_key"] or not settings[KEY_SETTING]:
        return settings["job_key"].strip()
    return read_private(KEY_SETTING, settings[KEY_SETTING]).strip()


def open_document(document: Any, key: str) -> Any:
    """Return a claim's JSON with its secrets opened, without a store. Raises WrongKey if the key does not open all."""
    if not isinstance(document, Mapping) or not isinstance(document.get("job"), str):
        raise BadValue("claim", "on standard input", "is not the JSON of a claim: it has no job")
    opened = {**document}
    for kind in ("inputs", "outputs"):
        ports = document.get(kind, {})
        if not isinstance(ports, Mapping) or not all(isinstance(port, Mapping) for port in ports.values()):
            raise BadValue(
                "claim",
                "on standard input",
                (f"is not the JSON of a claim: its {kind} do not have the format of a claim"),
            )
        opened[kind] = {name: _open_port(document["job"], name, {**port}, key) for name, port in ports.items()}
    return opened


def _open_port(job: str, dataset: str, port: MutableMapping[str, Any], key: str) -> Mapping[str, Any]:
    sealed = port.pop("sealed", {})
    if not isinstance(sealed, Mapping) or not all(isinstance(words, str) for words in sealed.values()):
        raise BadValue("claim", "on standard input", f"has sealed secrets of {dataset} that are not valid")
    opened = {name: _open_words(job, dataset, name, words, key) for name, words in sealed.items()}
    return {**port, "secrets": {**port.get("secrets", {}), **opened}}


def _open_words(job: str, dataset: str, name: str, words: str, key: str) -> str:
    from headgate.core.access.credentials import parse_envelope
    from headgate.service.secrets import crypto
    from headgate.service.secrets.sealing import KeyText, kek_of

    text = KeyText(key)
    for word in words.split():
        salt, copy = parse_envelope(word, dataset, name, job)
        raw = text.raw(salt)
        try:
            if raw is not None:
                return crypto.decrypt(crypto.unwrap(kek_of(raw, job), copy.wrap), copy.sealed, copy.additional_data)
        except crypto.CANNOT_OPEN:
            continue
    raise WrongKey(job, f"the key does not open secret {name} of {dataset}")


def check_secrets(values: object) -> dict[str, str]:
    """Names, each with a secret. Errors about a secret never show it."""
    if not isinstance(values, Mapping):
        raise BadValue("secrets", type(values).__name__, "is not a mapping of names to texts")
    for name, value in values.items():
        check_name("secret", name)
        if not isinstance(value, str) or not 0 < len(value) <= SECRET_LENGTH:
            raise BadValue("secret", name, f"is not a text of 1 to {SECRET_LENGTH} characters")
    return dict(values)


def _opened(custody: Custody, key: KeyText) -> Opened:
    from headgate.service.secrets.sealing import Sealer, missing_text

    sealer = Sealer(custody, None, key)
    found: dict[str, dict[str, str]] = {dataset: {} for dataset in custody.secrets}
    for dataset, versions in custody.secrets.items():
        for name in versions:
            plain = sealer.plain(dataset, name)
            if plain is None:
                there = custody.copies(dataset, name)
                why = f"secret {name} of {dataset} cannot be opened: it was changed or moved in the store. Set it again"
                raise WrongKey(custody.job, why if there else missing_text(dataset, name, custody.job))
            found[dataset][name] = plain
    named = {dataset: {name: str(each) for name, each in known.items()} for dataset, known in custody.secrets.items()}
    return Opened(named, found)


def _check_room(custody: Custody, *, beside: bool, lost: bool) -> None:
    job = custody.job
    if custody.keys and not (beside or lost):
        raise Refused(
            f"job {job} already has a key. To replace it: headgate keys new {job} --beside, and once every worker "
            f"has the new one: headgate keys retire {job}. If it is lost: headgate keys new {job} --lost"
        )
    if beside and not lost and len(custody.keys) >= MOST_KEYS:
        raise Refused(f"job {job} already has {MOST_KEYS} keys; retire the old one first: headgate keys retire {job}")


def _is_ring_of(ring: Ring | None, known: Mapping[int, str]) -> bool:
    """Whether a ring may be rotated for a store with these master keys."""
    from headgate.service.secrets.sealing import check_ring

    if ring is None:
        return not known
    try:
        check_ring(ring, known)
    except WrongKey:
        return False
    return True


def _lost_with(wraps: Sequence[MasterWrap]) -> str:
    """The secrets that no key opens without the master keys, and those that cannot be sealed again, for display."""
    shared = {(each.dataset, each.name) for each in wraps if each.dataset and each.job}
    alone = sorted(
        {f"{each.dataset}/{each.name}" for each in wraps if each.dataset} - {"/".join(each) for each in shared}
    )
    jobs = sorted({each.job for each in wraps if each.job and not each.dataset})
    parts = [f"{plural(len(alone), 'secret')} that no job's key opens ({_some(alone)})"] if alone else []
    if jobs:
        parts.append(f"sealing new secrets for {plural(len(jobs), 'job')} without their keys ({_some(jobs)})")
    return "; ".join(parts) or "nothing that a job's key does not open"


def _some(names: Sequence[str], most: int = 5) -> str:
    return ", ".join([*names[:most], *(["…"] if len(names) > most else [])])


def _closed_text(old: MasterWrap) -> str:
    what = f"secret {old.name} of {old.dataset}" if old.dataset else "its wrapping key"
    return (
        f"master key v{old.master_id} of the ring does not open {what}: it was sealed with another ring, or changed "
        f"in the store. Set it again ({'headgate define' if old.dataset else 'headgate keys new --lost'}), then rewrap"
    )


def _known(ring: Ring, old: MasterWrap) -> bytes:
    from headgate.service.secrets.sealing import no_master

    if old.master_id not in ring:
        raise WrongKey(old.job, no_master(old.master_id, 0))
    return ring.kek(old.master_id, old.job)
