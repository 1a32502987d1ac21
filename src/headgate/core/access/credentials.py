"""Credentials as stored: sealed copies of secrets, the values that prove a job's keys, and who can open what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headgate.core.errors import BadValue, HoldersUnconfirmed, Refused

#: The holder of copies that only the master key opens. A job's name is never empty.
MASTER = ""
#: The prefix of a sealed copy's text.
ENVELOPE = "hg1"


def additional_data(dataset: str, name: str, job: str, version: int) -> bytes:
    """The context that a copy is bound to: a copy moved elsewhere cannot be opened. Names contain no slash, so no two
    contexts are alike.
    """
    return f"cred/{dataset}/{name}/{job}/{version}".encode()


@dataclass(frozen=True, slots=True)
class JobKey:
    """One key of a job as it is stored: the value that proves it, never the key itself."""

    job: str
    #: The number of the job's key; it only grows.
    generation: int
    #: Of a passphrase; empty: the key is 32 random bytes.
    salt: str
    #: Proves the key.
    check: str
    #: The master key that seals the job's wrapping key; 0: the wrapping key is not stored.
    master_id: int = 0
    #: That, wrapped.
    escrow: str = field(default="", repr=False)

    @property
    def proof(self) -> str:
        """The form in which it is stored in the job's row."""
        return f"{self.generation}:{self.salt}:{self.check}"


def parse_proofs(job: str, text: str) -> list[JobKey]:
    """A job's keys from its row, oldest first."""
    parts = [each.split(":") for each in text.split()]
    return [JobKey(job, int(generation), salt, check) for generation, salt, check in parts]


@dataclass(frozen=True, slots=True)
class Sealed:
    """One secret, sealed for one holder."""

    dataset: str
    name: str
    #: The job that can open it; MASTER: only the master key can.
    job: str
    #: The number of the job's key.
    generation: int
    #: Grows with every new value of the secret.
    version: int
    #: The data key, wrapped for the job.
    wrap: str = field(repr=False)
    #: Nonce and ciphertext.
    sealed: str = field(repr=False)
    #: The master key that can open it too; 0: none.
    master_id: int = 0
    #: The data key, wrapped for the master key.
    master_wrap: str = field(default="", repr=False)

    @property
    def additional_data(self) -> bytes:
        """The context that it is bound to."""
        return additional_data(self.dataset, self.name, self.job, self.version)

    def envelope(self, salt: str) -> str:
        """The copy as one word, to be opened in another program."""
        return f"{ENVELOPE}.{self.generation}.{salt}.{self.version}.{self.wrap}.{self.sealed}"


def parse_envelope(word: str, dataset: str, name: str, job: str) -> tuple[str, Sealed]:
    """The salt of the key and the copy that a word contains."""
    parts = word.split(".")
    if len(parts) != 6 or parts[0] != ENVELOPE or not (parts[1].isdecimal() and parts[3].isdecimal()):
        raise BadValue("sealed secret", name, f"of {dataset} is not in the format of a claim")
    _, generation, salt, version, wrap, sealed = parts
    return salt, Sealed(dataset, name, job, int(generation), int(version), wrap, sealed)


@dataclass(frozen=True, slots=True)
class Custody:
    """Everything stored about the secrets of one dataset, or of one job's datasets, at one moment."""

    #: The dataset concerned, or empty.
    dataset: str
    #: The job concerned, or empty.
    job: str
    #: Names of the secrets with their newest version, by dataset.
    secrets: Mapping[str, Mapping[str, int]]
    #: Keys of the job, or of every job that uses the dataset.
    keys: tuple[JobKey, ...]
    #: The copies for those jobs and for the master key.
    sealed: tuple[Sealed, ...]
    #: Copies under an older master key than this one are not opened.
    least_master: int
    #: The jobs that may hold the secrets of a dataset, where it lists them.
    allowed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def copies(self, dataset: str, name: str) -> list[Sealed]:
        """The copies of a secret's newest value."""
        version = self.secrets[dataset][name]
        return [each for each in self.sealed if (each.dataset, each.name, each.version) == (dataset, name, version)]


@dataclass(frozen=True, slots=True)
class CustodyChange:
    """The change to make; it is applied only if nothing has changed in the meantime."""

    #: New copies; each replaces the old one for the same holder.
    put: Sequence[Sealed] = ()
    #: Copies that go.
    drop: Sequence[Sealed] = ()
    #: The job's new keys; None: unchanged.
    keys: Sequence[JobKey] | None = None
    #: The dataset's new secrets with their versions; None: unchanged.
    versions: Mapping[str, int] | None = None
    #: The jobs that this change makes holders of a dataset's secrets, as DATASET/JOB; an admin has confirmed each.
    holders: Sequence[str] = ()

    def __bool__(self) -> bool:
        return bool(self.put or self.drop) or self.keys is not None or self.versions is not None


def holder(dataset: str, job: str) -> str:
    """A job that holds a dataset's secrets, as one word. Names contain no slash."""
    return f"{dataset}/{job}"


def sealed_for(change: CustodyChange) -> list[str]:
    """The jobs that a change gives copies to, as DATASET/JOB, in order."""
    return sorted({holder(copy.dataset, copy.job) for copy in change.put if copy.job != MASTER})


def check_holders(known: Custody, change: CustodyChange) -> None:
    """Raise HoldersUnconfirmed unless the confirmed jobs are exactly those that a change makes holders."""
    for copy in change.put:
        if copy.job not in (MASTER, *known.allowed.get(copy.dataset, (copy.job,))):
            raise Refused(f"job {copy.job} is not among the secret_jobs of dataset {copy.dataset}")
    held = {holder(copy.dataset, copy.job) for copy in known.sealed}
    given = sealed_for(change)
    missing = [each for each in given if each not in held and each not in change.holders]
    if missing:
        raise HoldersUnconfirmed(missing)
    for each in change.holders:
        if each not in given:
            raise BadValue("holder", each, "is confirmed, but this change does not make it a holder")


@dataclass(frozen=True, slots=True)
class MasterWrap:
    """A value wrapped for a master key: a copy's data key, or a job's wrapping key."""

    #: The copy's dataset and name; empty for a job's own.
    dataset: str
    name: str
    job: str
    generation: int
    master_id: int
    wrap: str = field(repr=False)
