"""The profile that a batch starts with, read from the profiles folder of the process that keeps the store."""

from __future__ import annotations

from pathlib import Path

from headgate.core.errors import BadProfiles
from headgate.core.inventory import Intake
from headgate.core.queue.model import Batch
from headgate.core.values.names import check_name
from headgate.ingest.profiles.profile import Profile, load_profile
from headgate.service.inventory import Inventory


def read_profile(folder: Path, name: str) -> Profile:
    """Return a profile according to its current file. BadProfiles with every error, or for an unknown name."""
    path = folder / f"{check_name('profile', name)}.toml"
    if not path.is_file():
        raise BadProfiles([(str(path), f"there is no profile {name}")])
    return load_profile(path)


def start_batch(inventory: Inventory, folder: Path, batch: Batch) -> Intake:
    """Store the profile of a taken, pending batch, and return the profile that the batch starts with.

    While the batch has no jobs, an earlier profile is replaced: a batch starts with the current profile, never with one
    that was stored before. Once it has jobs, the stored profile stays. BadProfiles when there is no usable profile.
    """
    if batch.made and (found := inventory.intake(batch.id)) is not None:
        return found
    profile = read_profile(folder, batch.profile)
    return inventory.keep_intake(Intake(batch.id, profile.snapshot()), anew=True)


def adopt_batch(inventory: Inventory, folder: Path, batch: str, name: str) -> Intake:
    """Store the profile of a batch that another program has started; a stored one stays. BadProfiles as above.

    `name`: the profile's name, according to the batch or its job.
    """
    found = inventory.intake(batch)
    if found is not None and found.profile:
        return found
    profile = read_profile(folder, name)
    return inventory.keep_intake(Intake(batch, profile.snapshot()), anew=found is not None)
