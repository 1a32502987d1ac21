"""Plans which keys open which secrets, and the changes that achieve this.

This code does not call a store: it gets a custody and returns a change of it. Keys and plain secrets stay in this
process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from hmac import compare_digest

from headgate.core.access.credentials import MASTER, Custody, CustodyChange, JobKey, Sealed, sealed_for
from headgate.core.errors import Refused, WrongKey
from headgate.service.secrets import crypto
from headgate.service.secrets.keyring import KEY_PREFIX, Ring

GIVE_KEYS = "set the ring of master keys (HEADGATE_MASTER_KEY_FILE) or the key of that job (HEADGATE_JOB_KEY)"

BRING_RING = (
    "Set HEADGATE_MASTER_KEY_FILE to the store's own ring. If it is lost, `headgate keys rotate` lists what is lost "
    "with it"
)


def kek_of(key: bytes, job: str) -> bytes:
    """The key with which a job's key wraps data keys."""
    return crypto.derive(key, f"job-kek/v1/{job}")


def check_of(key: bytes, job: str) -> str:
    """The proof of a job's key, which reveals nothing about its secrets."""
    return crypto.to_text(crypto.derive(key, f"job-check/v1/{job}"))


class KeyText:
    """A job's key as the caller passed it: 32 random bytes, or a passphrase."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._stretched: dict[str, bytes] = {}

    def raw(self, salt: str) -> bytes | None:
        """The key's bytes; None if it is not such a key. Stretching is slow, so it is done only once."""
        if not salt:
            return self._random()
        if salt not in self._stretched:
            self._stretched[salt] = crypto.stretch(self._text, salt)
        return self._stretched[salt]

    def prove(self, key: JobKey) -> bytes | None:
        """Its wrapping key, if it is that key of the job."""
        raw = self.raw(key.salt)
        proven = raw is not None and compare_digest(check_of(raw, key.job), key.check)
        return kek_of(raw, key.job) if raw is not None and proven else None

    def _random(self) -> bytes | None:
        try:
            raw = crypto.from_text(self._text.removeprefix(KEY_PREFIX))
        except crypto.CANNOT_OPEN:
            return None
        return raw if self._text.startswith(KEY_PREFIX) and len(raw) == crypto.KEY_BYTES else None


class Sealer:
    """A custody, and the available keys."""

    def __init__(self, custody: Custody, ring: Ring | None, key: KeyText | None) -> None:
        self.custody = custody
        self.ring = ring
        self._key = key
        if ring is not None and ring.newest < custody.least_master:
            raise WrongKey(
                MASTER,
                (
                    f"the newest master key in the ring is v{ring.newest}; the store accepts none before "
                    f"v{custody.least_master}"
                ),
            )

    @property
    def with_master(self) -> bool:
        """Whether there is a ring of master keys."""
        return self.ring is not None

    def kek(self, key: JobKey) -> bytes | None:
        """The wrapping key of a job's key, from that key or the master key; None when neither is available."""
        proven = self._key.prove(key) if self._key else None
        if proven is None and key.master_id:
            with suppress(*crypto.CANNOT_OPEN):
                return self._unwrap_master(key.master_id, key.job, key.escrow)
        return proven

    def plain(self, dataset: str, name: str) -> str | None:
        """A secret's newest value; None when no available key opens it."""
        for copy in self.custody.copies(dataset, name):
            with suppress(*crypto.CANNOT_OPEN):
                data_key = self._data_key(copy)
                if data_key is not None:
                    return crypto.decrypt(data_key, copy.sealed, copy.additional_data)
        return None

    def holds(self, dataset: str, job: str) -> bool:
        """Whether a job is known to hold a dataset's secrets: one of its copies opens with the available keys.

        A copy that an attacker planted in the store does not, because it was made without them. With a ring, the ring
        has to open it: a job's own workers have the job's key.
        """
        for name in self.custody.secrets.get(dataset, {}):
            for copy in self.custody.copies(dataset, name):
                if copy.job == job and self._is_ours(copy):
                    return True
        return False

    def new_holders(self, change: CustodyChange) -> list[str]:
        """The jobs that a change would make holders, as DATASET/JOB."""
        return [each for each in sealed_for(change) if not self.holds(*each.split("/"))]

    def _is_ours(self, copy: Sealed) -> bool:
        with suppress(WrongKey, *crypto.CANNOT_OPEN):
            by_master = self._unwrap_master(copy.master_id, copy.job, copy.master_wrap) if copy.master_id else None
            data_key = by_master if self.ring is not None else self._data_key(copy)
            if data_key is not None:
                crypto.decrypt(data_key, copy.sealed, copy.additional_data)
                return True
        return False

    def seal(self, dataset: str, name: str, version: int, plain: str, holder: JobKey | None, kek: bytes) -> Sealed:
        """A copy for one key of a job, and for the master key if there is one."""
        job, generation = (holder.job, holder.generation) if holder else (MASTER, 0)
        data_key = crypto.random_key()
        bare = Sealed(dataset, name, job, generation, version, "", "")
        sealed = crypto.encrypt(data_key, plain, bare.additional_data)
        master_id, master_wrap = self.escrow(job, data_key)
        wrap = crypto.wrap(kek, data_key) if holder else ""
        return Sealed(dataset, name, job, generation, version, wrap, sealed, master_id, master_wrap)

    def seal_for_master(self, dataset: str, name: str, version: int, plain: str) -> Sealed:
        """The copy that only the master key opens."""
        return self.seal(dataset, name, version, plain, None, b"")

    def escrow(self, job: str, key: bytes) -> tuple[int, str]:
        """A key under the newest master key, and the number of that; 0 without a ring."""
        if self.ring is None:
            return 0, ""
        return self.ring.newest, crypto.wrap(self.ring.kek(self.ring.newest, job), key)

    def with_escrow(self, key: JobKey) -> JobKey:
        """A key of a job that was made without the master key, and can now be sealed with it."""
        kek = None if key.master_id or self.ring is None else self.kek(key)
        if kek is None:
            return key
        master_id, escrow = self.escrow(key.job, kek)
        return replace(key, master_id=master_id, escrow=escrow)

    def _data_key(self, copy: Sealed) -> bytes | None:
        holder = next((k for k in self.custody.keys if (k.job, k.generation) == (copy.job, copy.generation)), None)
        kek = self._key.prove(holder) if self._key and holder else None
        if kek is not None:
            return crypto.unwrap(kek, copy.wrap)
        return self._unwrap_master(copy.master_id, copy.job, copy.master_wrap) if copy.master_id else None

    def _unwrap_master(self, number: int, job: str, wrapped: str) -> bytes | None:
        if self.ring is None:
            return None
        if number < self.custody.least_master or number not in self.ring:
            raise WrongKey(job, no_master(number, self.custody.least_master))
        return crypto.unwrap(self.ring.kek(number, job), wrapped)


def check_ring(ring: Ring, known: Mapping[int, str]) -> None:
    """Raise WrongKey unless the ring is the one that seals here: it shares a key with it, and contradicts none."""
    shared = [number for number in ring.numbers if number in known]
    for number in shared:
        if not compare_digest(ring.check(number), known[number]):
            raise WrongKey(MASTER, f"{_other_ring(number)}. {BRING_RING}")
    if known and not shared:
        raise WrongKey(MASTER, f"{no_master(max(known), 0)}. {BRING_RING}")


def check_custody(ring: Ring, known: Mapping[int, str], custody: Custody) -> None:
    """Raise WrongKey when the ring opens nothing that is under a key unknown to the store.

    A store from before rings were recorded has such keys.
    """
    wraps = [(each.master_id, each.job, each.master_wrap) for each in custody.sealed]
    wraps += [(each.master_id, each.job, each.escrow) for each in custody.keys]
    unknown = [each for each in wraps if each[0] in ring and each[0] not in known]
    for number, job, wrap in unknown:
        with suppress(*crypto.CANNOT_OPEN):
            crypto.unwrap(ring.kek(number, job), wrap)
            return
    if unknown:
        raise WrongKey(MASTER, f"{_other_ring(unknown[0][0])}. {BRING_RING}")


def _other_ring(number: int) -> str:
    return (
        f"master key v{number} in the ring's file is not master key v{number} of this store: it is the ring of "
        "another store"
    )


def no_master(number: int, least: int) -> str:
    """Why a master key does not open a secret."""
    if number < least:
        return (
            f"some secrets are still sealed with master key v{number}, and none before v{least} is accepted; "
            "rewrap them first with: headgate keys rewrap"
        )
    return f"master key v{number} is missing from the ring, and some secrets are still sealed with it"


def plan_secrets(sealer: Sealer, wanted: Mapping[str, str]) -> tuple[CustodyChange, list[str], list[str]]:
    """Set a dataset's secrets to exactly these. Returns the change, with lines and warnings for display."""
    custody, dataset = sealer.custody, sealer.custody.dataset
    known = custody.secrets[dataset]
    put: list[Sealed] = []
    drop = [copy for copy in custody.sealed if copy.name not in wanted]
    lines = [f"dataset {dataset}: secret {name} removed" for name in known if name not in wanted]
    warnings: list[str] = []
    versions: dict[str, int] = {}
    for name, plain in wanted.items():
        same = name in known and sealer.plain(dataset, name) == plain
        versions[name] = known.get(name, 0) + (not same)
        if same:
            found, missing = complete(sealer, dataset, name, plain, custody.keys)
            put, warnings = put + found, warnings + missing
        else:
            put += _anew(sealer, name, versions[name], plain)
            drop += [copy for copy in custody.sealed if copy.name == name]
            lines.append(f"dataset {dataset}: secret {name} {'changed' if name in known else 'new'}")
    return CustodyChange(put, drop, None, None if versions == dict(known) else versions), lines, warnings


def _anew(sealer: Sealer, name: str, version: int, plain: str) -> list[Sealed]:
    """Copies of a new value for everyone who is to open it; refused unless that is possible for all."""
    dataset, copies = sealer.custody.dataset, []
    for key in sealer.custody.keys:
        kek = sealer.kek(key)
        if kek is None:
            raise Refused(f"secret {name} of {dataset} cannot be sealed for job {key.job}: {GIVE_KEYS}")
        copies.append(sealer.seal(dataset, name, version, plain, key, kek))
    if sealer.with_master:
        copies.append(sealer.seal_for_master(dataset, name, version, plain))
    if not copies:
        raise Refused(
            f"secret {name} of {dataset} cannot be sealed: there is no master key, and no job that uses the dataset "
            "has a key. Create one of them: headgate keys rotate (with HEADGATE_MASTER_KEY_FILE), headgate keys new "
            "JOB"
        )
    return copies


def complete(
    sealer: Sealer, dataset: str, name: str, plain: str | None, keys: Iterable[JobKey]
) -> tuple[list[Sealed], list[str]]:
    """The missing copies of a secret's newest value, and a line for each that cannot be made here."""
    there = {(copy.job, copy.generation) for copy in sealer.custody.copies(dataset, name)}
    version = sealer.custody.secrets[dataset][name]
    put, warnings = [], []
    for key in keys:
        if (key.job, key.generation) in there:
            continue
        kek = sealer.kek(key)
        if plain is None or kek is None:
            warnings.append(missing_text(dataset, name, key.job))
        else:
            put.append(sealer.seal(dataset, name, version, plain, key, kek))
    if plain is not None and sealer.with_master and (MASTER, 0) not in there:
        put.append(sealer.seal_for_master(dataset, name, version, plain))
    return put, warnings


def missing_text(dataset: str, name: str, job: str) -> str:
    """The warning about a job without a copy of a secret that it should open, with advice."""
    return (
        f"job {job} cannot open secret {name} of {dataset} yet: define the job again with the ring of master keys, "
        "or set the secret again"
    )


def plan_key(sealer: Sealer, passphrase: str | None, *, lost: bool) -> tuple[CustodyChange, str, list[str]]:
    """Add a key for a job, or its only one if the others are lost. Returns the change, the key, and warnings."""
    custody, job = sealer.custody, sealer.custody.job
    salt = "" if passphrase is None else crypto.random_salt()
    raw = crypto.random_key() if passphrase is None else crypto.stretch(passphrase, salt)
    generation = max((key.generation for key in custody.keys), default=0) + 1
    kek = kek_of(raw, job)
    new = JobKey(job, generation, salt, check_of(raw, job), *sealer.escrow(job, kek))
    put, warnings = [], []
    for dataset, versions in custody.secrets.items():
        for name, version in versions.items():
            plain = sealer.plain(dataset, name)
            if plain is None:
                warnings.append(missing_text(dataset, name, job))
            else:
                put.append(sealer.seal(dataset, name, version, plain, new, kek))
    if custody.keys and warnings and not lost:
        raise Refused(
            f"the secrets of job {job} cannot be opened here, so a new key would not open them: {GIVE_KEYS}. If both "
            "are lost, run headgate keys new --lost and set the secrets again"
        )
    drop = [copy for copy in custody.sealed if copy.job == job] if lost else []
    keys = [new] if lost else [*custody.keys, new]
    return CustodyChange(put, drop, keys), KEY_PREFIX + crypto.to_text(raw), warnings


def plan_retirement(custody: Custody) -> CustodyChange:
    """Invalidate all keys of a job except the newest."""
    newest = custody.keys[-1]
    drop = [copy for copy in custody.sealed if copy.job == custody.job and copy.generation != newest.generation]
    return CustodyChange((), drop, [newest])


def plan_sharing(sealer: Sealer) -> tuple[CustodyChange, list[str]]:
    """Let a job open all secrets of its datasets, and the master key all keys of the job that are available here.

    Returns the change, and a line for each secret that the job cannot open yet.
    """
    keys = [sealer.with_escrow(key) for key in sealer.custody.keys]
    put: list[Sealed] = []
    warnings: list[str] = []
    for dataset, versions in sealer.custody.secrets.items():
        for name in versions:
            there = {(copy.job, copy.generation) for copy in sealer.custody.copies(dataset, name)}
            missing = [key for key in sealer.custody.keys if (key.job, key.generation) not in there]
            if missing:
                found, told = complete(sealer, dataset, name, sealer.plain(dataset, name), missing)
                put, warnings = put + found, warnings + told
    changed = None if tuple(keys) == sealer.custody.keys else keys
    return CustodyChange(put, (), changed), list(dict.fromkeys(warnings))
