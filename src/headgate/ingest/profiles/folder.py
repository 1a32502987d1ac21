"""The folder of ingest profiles, which is read often: a file is parsed again only when it has changed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from headgate.core.errors import BadProfiles, BadValue
from headgate.core.queue.model import Hold
from headgate.core.values.names import check_name
from headgate.core.values.words import suggestion
from headgate.ingest.profiles.profile import Profile, load_profile

#: The name shown for a hold by a profile.
BY_PROFILE = "its profile"


class ProfilesFolder:
    """The profiles of one process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        #: By path: time of change, size, and the profile or its errors.
        self._read: dict[Path, tuple[int, int, Profile | str]] = {}

    @property
    def exists(self) -> bool:
        """Whether there is a folder of profiles."""
        return self._folder.is_dir()

    def names(self) -> list[str]:
        """The names of all profiles, usable or not."""
        return sorted(path.stem for path in self._folder.glob("*.toml"))

    def problem(self, name: str) -> str:
        """Why a profile cannot be used, with the nearest known name; empty: it can."""
        try:
            check_name("profile", name)
        except BadValue as error:  # Another program made the batch. No file outside the folder is read for it.
            return str(error)
        found = self._profile(self._folder / f"{name}.toml")
        if found is None:
            return f"there is no profile {name}; {self.hint(name)}"
        return found if isinstance(found, str) else ""

    def hint(self, name: str, known: Sequence[str] = ()) -> str:
        """Advice for a name without a profile. `known`: other names in use."""
        names = sorted({*self.names(), *known})
        return suggestion(name, names) or f"write {self._folder / f'{name}.toml'}"

    def holds(self) -> list[Hold]:
        """The collections on hold by their profiles, each since its file changed."""
        found = ((name, self._profile(self._folder / f"{name}.toml")) for name in self.names())
        return [self._hold(name, each.hold) for name, each in found if isinstance(each, Profile) and each.hold]

    def file(self, name: str) -> Path:
        """The file of a profile."""
        return (self._folder / f"{name}.toml").absolute()

    def _hold(self, name: str, reason: str) -> Hold:
        changed = self._read[self._folder / f"{name}.toml"][0]
        return Hold(name, reason, BY_PROFILE, datetime.fromtimestamp(changed / 1e9, UTC), str(self.file(name)))

    def _profile(self, path: Path) -> Profile | str | None:
        """The profile in a file, or its errors; None: there is no such file."""
        try:
            stat = path.stat()
        except OSError:
            self._read.pop(path, None)
            return None
        changed, size, found = self._read.get(path, (0, 0, ""))
        if (changed, size) != (stat.st_mtime_ns, stat.st_size):
            try:
                found = load_profile(path)
            except BadProfiles as error:
                found = str(error)
            self._read[path] = (stat.st_mtime_ns, stat.st_size, found)
        return found
