"""The files that ingest adds to every object's `system` folder, and the depositors' files that it reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime

from headgate.core.errors import BadValue
from headgate.ingest.formats import anvl
from headgate.ingest.formats.checkm import Problems
from headgate.ingest.formats.descriptions import Description, write_dublin_core, write_erc
from headgate.ingest.formats.file_names import check_file_name
from headgate.ingest.formats.lines import lines_of
from headgate.ingest.formats.manifest import MOST_ENTRIES, UNASSIGNED

PRODUCER = "producer"
SYSTEM = "system"
#: The metadata of an object, from its depositor and from ingest.
ERC, DUBLIN_CORE = "mrt-erc.txt", "mrt-dc.xml"
#: The storage manifest, and the depositor's own.
STORAGE_MANIFEST = "mrt-manifest.txt"
SUBMISSION_MANIFEST = "mrt-submission-manifest.txt"


@dataclass(frozen=True, slots=True)
class IngestRecord:
    """`mrt-ingest.txt`: how the object was submitted. The fields are in the order of the file; empty: not assigned."""

    ingest: str = ""
    submission_date: str = ""
    batch: str = ""
    job: str = ""
    user_agent: str = ""
    file: str = ""
    type: str = ""
    profile: str = ""
    collection: str = ""
    storage_service: str = ""
    notification: str = ""
    supplied_identifier: str = ""
    digest_type: str = ""
    digest_value: str = ""
    creator: str = ""
    title: str = ""
    date: str = ""
    local_identifier: str = ""
    note: str = ""
    package_integrity: str = ""
    container_validity: str = ""
    manifest_validity: str = ""
    manifest_integrity: str = ""
    assigned_identifier: str = ""
    retrieved_identifier: str = ""
    handlers: str = ""


@dataclass(frozen=True, slots=True)
class ObjectModel:
    """`mrt-mom.txt`: what kind of object it is."""

    primary_identifier: str = ""
    type: str = "MRT-curatorial"
    role: str = "MRT-content"
    aggregate: str = ""
    local_identifier: str = ""


def system_files(
    record: IngestRecord,
    model: ObjectModel,
    description: Description,
    owner: str,
    membership: Sequence[str],
    local: Sequence[str],
) -> dict[str, bytes]:
    """The files that ingest writes for every object, by the name in its `system` folder, except the manifests."""
    return {
        "mrt-ingest.txt": write_record(record).encode(),
        "mrt-mom.txt": write_record(model).encode(),
        "mrt-owner.txt": owner.encode(),
        "mrt-membership.txt": "".join(f"{ark}\n" for ark in membership).encode(),
        ERC: write_erc(description, model.primary_identifier, local).encode(),
        DUBLIN_CORE: write_dublin_core(description.dublin_core),
    }


def write_record(record: IngestRecord | ObjectModel) -> str:
    """`key:<tab>value` lines, in the order of the fields."""
    names = [field.name for field in fields(record)]
    return anvl.write([(_key(name), str(getattr(record, name)).strip() or UNASSIGNED) for name in names], "\t")


def read_embargo(text: str) -> datetime | None:
    """The end of the embargo in a depositor's `mrt-embargo.txt`; None: there is none (any more)."""
    found = anvl.read_unique(text)
    value = found.get("embargoEndDate", "")
    if set(found) - {"embargoEndDate"} or not value:
        raise BadValue("mrt-embargo.txt", ", ".join(found), "must have embargoEndDate and nothing else")
    if value.upper() == "NONE":
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise BadValue("embargoEndDate", value, "is neither an ISO 8601 date nor NONE") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def read_deletions(text: str) -> tuple[str, ...]:
    """The files that an update removes, by a depositor's `mrt-delete.txt`: names below the object's folder."""
    names: dict[str, None] = {}
    problems = Problems()
    for number, line in enumerate(lines_of(text), 1):
        if line.strip():
            try:
                names[f"{PRODUCER}/{check_file_name(line.strip())}"] = None
            except BadValue as error:
                problems.add(number, str(error))
        if len(names) > MOST_ENTRIES:
            problems.add(number, f"it has more than {MOST_ENTRIES:,} names; the rest was not read")
            break
    problems.check()
    return tuple(names)


def _key(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))
