"""Credentials as they are kept: sealed copies of secrets, what proves a job's keys, and who can open what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headgate.core.errors import BadValue, HoldersUnconfirmed, Refused

#: The holder of copies that only the master key opens. No job has an empty name.
MASTER = ""
#: What the text of a sealed copy begins with.
ENVELOPE = "hg1"


def additional_data(dataset: str, name: str, job: str, version: int) -> bytes:
    """What a copy is bound to: moved elsewhere it does not open. No name has a slash, so no two are alike."""
    return f"cred/{dataset}/{name}/{job}/{version}".encode()


@dataclass(frozen=True, slots=True)
class JobKey:
    """One key of a job, as far as it may be kept: what proves it, never the key."""

    job: str
    #: Which of the job's keys; it only grows.
    generation: int
    #: Of a passphrase; empty: the key is 32 random bytes.
    salt: str
    #: Proves the key.
    check: str
    #: The master key under which what the job's key wraps with is kept; 0: it is not.
    master_id: int = 0
    #: That, wrapped.
    escrow: str = field(default="", repr=False)

    @property
    def proof(self) -> str:
        """What a job's row keeps of it."""
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
    #: Which of the job's keys.
    generation: int
    #: Grows with every new value of the secret.
    version: int
    #: The data key, wrapped for the job.
    wrap: str = field(repr=False)
    #: Nonce and ciphertext.
    sealed: str = field(repr=False)
    #: The master key that can open it, too; 0: none.
    master_id: int = 0
    #: The data key, wrapped for the master key.
    master_wrap: str = field(default="", repr=False)

    @property
    def additional_data(self) -> bytes:
        """What it is bound to."""
        return additional_data(self.dataset, self.name, self.job, self.version)

    def envelope(self, salt: str) -> str:
        """The copy as one word, to be opened elsewhere."""
        return f"{ENVELOPE}.{self.generation}.{salt}.{self.version}.{self.wrap}.{self.sealed}"


def parse_envelope(word: str, dataset: str, name: str, job: str) -> tuple[str, Sealed]:
    """The salt of the key and the copy that a word holds."""
    parts = word.split(".")
    if len(parts) != 6 or parts[0] != ENVELOPE or not (parts[1].isdecimal() and parts[3].isdecimal()):
        raise BadValue("sealed secret", name, f"of {dataset} is not in the format of a claim")
    _, generation, salt, version, wrap, sealed = parts
    return salt, Sealed(dataset, name, job, int(generation), int(version), wrap, sealed)


@dataclass(frozen=True, slots=True)
class Custody:
    """Everything that is kept about the secrets of one dataset, or of one job's datasets, at one moment."""

    #: The dataset that it is about, or empty.
    dataset: str
    #: The job that it is about, or empty.
    job: str
    #: Names of the secrets with their newest version, by dataset.
    secrets: Mapping[str, Mapping[str, int]]
    #: Of the job, or of every job that uses the dataset.
    keys: tuple[JobKey, ...]
    #: The copies, of those jobs and of the master key.
    sealed: tuple[Sealed, ...]
    #: Copies under a master key before this one are not opened.
    least_master: int
    #: The jobs that may hold the secrets of a dataset, where it lists them.
    allowed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def copies(self, dataset: str, name: str) -> list[Sealed]:
        """The copies of a secret's newest value."""
        version = self.secrets[dataset][name]
        return [each for each in self.sealed if (each.dataset, each.name, each.version) == (dataset, name, version)]


@dataclass(frozen=True, slots=True)
class CustodyChange:
    """The change to make; it is made only if nothing changed meanwhile."""

    #: New copies; each takes the place of an old one for the same holder.
    put: Sequence[Sealed] = ()
    #: Copies that go.
    drop: Sequence[Sealed] = ()
    #: The job's keys from now on; None: as they are.
    keys: Sequence[JobKey] | None = None
    #: The dataset's secrets with their versions from now on; None: as they are.
    versions: Mapping[str, int] | None = None
    #: The jobs that become holders of a dataset's secrets by it, as DATASET/JOB; an admin has confirmed each.
    holders: Sequence[str] = ()

    def __bool__(self) -> bool:
        return bool(self.put or self.drop) or self.keys is not None or self.versions is not None


def holder(dataset: str, job: str) -> str:
    """A job that holds a dataset's secrets, in one word. No name has a slash."""
    return f"{dataset}/{job}"


def sealed_for(change: CustodyChange) -> list[str]:
    """The jobs that get copies by a change, as DATASET/JOB, in order."""
    return sorted({holder(copy.dataset, copy.job) for copy in change.put if copy.job != MASTER})


def check_holders(known: Custody, change: CustodyChange) -> None:
    """Raise HoldersUnconfirmed unless a change confirms the jobs that become holders by it, and no others."""
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
    """Something that is wrapped for a master key: a copy's data key, or what a job's key wraps with."""

    #: The copy's dataset and name; empty for a job's own.
    dataset: str
    name: str
    job: str
    generation: int
    master_id: int
    wrap: str = field(repr=False)
