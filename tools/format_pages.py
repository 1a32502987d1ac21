"""The reference pages of the files that people write: pipeline files and manifests."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from headgate.core.ledger import pipeline_keys
from headgate.core.ledger.mappings.stamps import DIRECTIVES, FORMATS
from headgate.core.ledger.pipeline_keys import Key
from headgate.core.tables import describe
from headgate.ingest.formats import manifest
from headgate.ingest.formats.manifest import ManifestEntry, ManifestLayout
from headgate.ingest.steps import new_jobs as payload_types
from headgate.ingest.validation.codes import CODES
from headgate.service.queue.checks import METADATA, TYPES

#: A pipeline file with every key; a test defines it.
PIPELINE = """\
[dataset.orders_raw]
uri = "postgresql://warehouse/raw"
order = "natural"
secret_jobs = ["clean"]
expect = { every = "day", at = "06:00", zone = "Europe/Berlin", grace = "2h", from = "2026-01-01" }

[dataset.orders_raw.settings]
schema = "sales"

[dataset.orders_raw.secrets]
password = "env:RAW_PASSWORD"

[dataset.orders_clean]
uri = "/data/orders/clean"

[dataset.customers]
uri = "/data/customers"

[job.clean]
inputs = ["orders_raw"]
outputs = ["orders_clean"]
fan_out = ["customers"]
max_attempts = 5
max_crashes = 2
max_interruptions = 20
retry_delay = 600
on_failure = "hold"
stop_exit = "trust"

[job.clean.environment]
PARAM_REGION = "eu"

[job.clean.maps.orders_raw]
kind = "period"
period = "day"
unit = "hour"
zone = "Europe/Berlin"

[job.check]
inputs = ["orders_clean"]
recur = "90d"
"""
#: Tables of mappings, as in a pipeline file; a test reads them.
MAPPINGS = {
    "A month is made of all of its days": """\
[job.monthly.maps.days]
kind = "period"
period = "month"
unit = "day"
""",
    "A day in Berlin is made of its hours. One may be missing; if it comes late, the day is made again": """\
[job.daily.maps.hours]
kind = "period"
period = "day"
unit = "hour"
zone = "Europe/Berlin"
need = 22
on_late = "redo"
""",
    "A quarter is made of its trading days, until `headgate job close` says that these are all": """\
[job.quarterly.maps.trading_days]
kind = "period"
period = "quarter"
format = "%Y-%m-%d"
""",
    "A moving average over a week: a day and the six before it": """\
[job.average.maps.days]
kind = "window"
before = 6
unit = "day"
""",
    "A version is compared with the one before it, whatever their names": """\
[job.compare.maps.versions]
kind = "window"
before = 1
""",
    "A sample is made of its four lanes": """\
[job.merge.maps.lanes]
kind = "split"
format = "{sample}.{lane}"
job_format = "{sample}"
need = 4
""",
    "Every day reads the same two tables of rates": """\
[job.convert.maps.rates]
kind = "list"
ids = ["eur", "usd"]
""",
}

#: Expectations, as in a pipeline file; a test reads them.
EXPECTATIONS = {
    "A file for every day, at six in the morning of the next day; late after two hours": """\
[dataset.orders]
expect = { every = "day", at = "06:00", zone = "Europe/Berlin", grace = "2h", id_offset = "-1d", from = "2026-01-01" }
""",
    "One for every working day": """\
[dataset.rates]
expect = { cron = "0 18 * * 1-5", zone = "America/New_York", from = "2026-01-01" }
""",
    "Every hour, a quarter of an hour after its end": """\
[dataset.weather]
expect = { every = "hour", at = "00:15", id_offset = "-1h", from = "2026-01-01" }
""",
    "Four deliveries, on a day that was agreed on": """\
[dataset.lanes]
expect = { ids = ["S1.L1", "S1.L2", "S2.L1", "S2.L2"], from = "2026-12-01", at = "12:00" }
""",
}

#: The usual author of each kind of manifest, and the meaning of one row.
ROWS = {
    manifest.OBJECT: "One object: a row for each of its files.",
    manifest.BATCH: "Several objects: a row for each, whose payload is an object manifest.",
    manifest.CONTAINERS: "Several objects: a row for each, whose payload is a container (zip, tar).",
    manifest.SINGLE_FILES: "Several objects: a row for each, whose payload is its only file.",
    manifest.STORAGE: "Written by ingest into `system/mrt-manifest.txt` of each stored object; not submitted.",
    manifest.CONTENTS: "What a container says of its own files: `mrt-manifest.txt` in the container. Optional; if it "
    "is there, container and manifest must agree.",
}
#: One row in the example of each kind: the name of the file that it points to.
NAMES = {
    "object_manifest": "moby-dick.checkm",
    "container": "moby-dick.zip",
    "file": "moby-dick.pdf",
    "": "chapter-1.txt",
}


def pipeline_page() -> str:
    """Every key of a pipeline file."""
    lead = (
        "A pipeline file is TOML. It has a table `[dataset.NAME]` for each dataset and a table `[job.NAME]` for each\n"
        "job; `headgate define FILE` applies it. Defining the same file again changes nothing, and datasets and jobs\n"
        "that the file does not name stay as they are. A key that is left out gets its default, also when an earlier\n"
        "definition had another value; only secrets stay as they are. Unknown keys are refused with the line and the\n"
        "nearest known name. Some keys stay in the file: `watch` of a dataset says where its files arrive, and\n"
        "`command` of a job what `headgate work` runs. The store does not keep them.\n"
    )
    parts = ["# Pipeline files\n", lead]
    parts += [
        "## `[dataset.NAME]`\n",
        _keys((*pipeline_keys.DATASET, *pipeline_keys.IN_THE_FILE)),
        "## `[job.NAME]`\n",
        _keys((*pipeline_keys.JOB, *pipeline_keys.JOB_IN_THE_FILE)),
        _WORK,
    ]
    parts += ["## `[dataset.NAME.expect]`\n", _EXPECT, _keys(pipeline_keys.EXPECT)]
    parts += [each for text, toml in EXPECTATIONS.items() for each in (f"{text}:\n", "```toml", toml.rstrip(), "```\n")]
    parts += ["## `[dataset.NAME.watch]`\n", _WATCH, _keys(pipeline_keys.WATCH)]
    parts += [each for text, toml in WATCHES.items() for each in (f"{text}:\n", "```toml", toml.rstrip(), "```\n")]
    parts += ["## `[job.NAME.maps.INPUT]`\n", _MAPS, _keys(pipeline_keys.MAP), _MAP_RULES]
    parts += [each for text, toml in MAPPINGS.items() for each in (f"{text}:\n", "```toml", toml.rstrip(), "```\n")]
    parts += ["### Formats of times\n", _directives(), "## Example\n", "```toml", PIPELINE.rstrip(), "```\n"]
    return "\n".join([*parts, _MORE])


_WORK = (
    "`headgate work -f FILE` runs the commands of all jobs, or of those that are named\n"
    "([how-to](../how-to/work.md)):\n"
    "\n"
    "```toml\n"
    "[job.thumbnails]\n"
    'inputs = ["scans"]\n'
    'outputs = ["thumbnails"]\n'
    'command = "convert scans/$HEADGATE_DATAID.tif -resize 200 thumbnails/$HEADGATE_DATAID.png"\n'
    "workers = 4\n"
    'timeout = "10m"\n'
    "```\n"
)
_EXPECT = (
    "Which data ids the dataset should have, and when each should be READY. It has one of the keys `every`, `cron`\n"
    "and `ids`. It may be an inline table, `expect = { … }`. The store keeps it; the daemon `timekeeper` judges what\n"
    "is [late](../how-to/late.md). A job that maps a period of the dataset without a `unit` needs what is expected.\n"
)
_WATCH = (
    "Where the files of a dataset arrive, and what they mean: `headgate watch run FILE` publishes a chunk when its\n"
    "files are complete ([how-to](../how-to/watch.md)). Times are seconds, or texts such as `30s`, `10m`, `26h`.\n"
    "Names that begin with a dot, or end in `.part`, `.partial`, `.tmp`, `.temp`, `.filepart`, `.crdownload`, `.swp`\n"
    "or `~`, are never counted. A name that can be read in two ways is reported and not counted.\n"
)
#: Watches for the reference; a test reads each.
WATCHES = {
    "One file a day; `orders-20261114.csv` publishes `2026-11-14`": """\
[dataset.orders.watch]
folder = "/data/incoming"
pattern = "orders-{date:%Y%m%d}.csv"
id = "{date:%Y-%m-%d}"
settle = "30s"
quiet_after = "26h"
""",
    "Two files for each sample, written elsewhere and renamed into place": """\
[dataset.reads.watch]
folder = "sequencer"
pattern = "{run}/{sample}"
id = "{run}-{sample}"
suffixes = ["_R1.fastq.gz", "_R2.fastq.gz"]
ready = "whole"
""",
    "All files of a folder in a bucket, once its marker `DONE` is there": """\
[dataset.scenes.watch]
prefix = "s3://shelf/scenes/"
pattern = "{scene}/{band}.tif"
id = "{scene}"
marker = "{scene}/DONE"
on_change = "redo"
""",
}


def _directives() -> str:
    """The directives of a format, and the default formats."""
    usual = ", ".join(f"{unit} `{form}`" for unit, form in FORMATS.items())
    rows = [(f"`{each}`", str(part.width), part.meaning) for each, part in DIRECTIVES.items()]
    lead = f"Each has a fixed number of digits; `%%` is a percent sign. Formats if none is given: {usual}.\n"
    return lead + "\n" + describe.table(("directive", "digits", "meaning"), rows) + "\n"


def _keys(keys: Iterable[Key]) -> str:
    rows = [(f"`{key.name}`", key.type, f"`{key.default}`" if key.default else "", key.meaning) for key in keys]
    return describe.table(("key", "type", "default", "meaning"), rows) + "\n"


def manifests_page() -> str:
    """The kinds of manifest, their columns, and which type of submission takes which."""
    parts = ["# Manifests\n", _MANIFESTS, "## Which `--type` takes which\n", _types()]
    parts += ["## Kinds of manifest\n", _kinds(), "## Columns\n", _columns(), _RULES, "## Examples\n"]
    for layout in manifest.LAYOUTS:
        if layout is not manifest.STORAGE:
            parts += [f"### {layout.name}\n", "```text", example(layout).decode(), "```\n"]
    parts += ["## `NAME=VALUE` of a submission\n", _SUBMISSION]
    parts += [describe.table(("name", "meaning"), [(f"`{name}`", text) for name, text in METADATA.items()]) + "\n"]
    return "\n".join(parts)


def example(layout: ManifestLayout) -> bytes:
    """A manifest of that kind with one row."""
    name = NAMES[layout.payload]
    entry = ManifestEntry(
        url="" if layout is manifest.CONTENTS else f"https://example.org/{name}", name=name, algorithm="sha256",
        digest=hashlib.sha256(b"Call me Ishmael.\n").hexdigest(), size=17, local=("melville-1",),
        creator="Herman Melville", title="Moby Dick", date="1851",
    )  # fmt: skip
    return manifest.write(layout, [entry])


_MAPS = (
    "A mapping says which data ids of an input one data id of the job needs. `same`, `period`, `window` and `split`\n"
    "also create the job's data ids, as soon as something that they read is READY; `all` and `list` never do. Where\n"
    "several inputs create data ids, the job has those that all of them create. A job with `all` and `list` alone is\n"
    "claimed with a data id that you name. The rules, with late arrivals and resubmission:\n"
    "[the model](../explanation/model.md#mappings). A complete example: the tutorial\n"
    "[from days to months](../tutorials/months.md).\n"
)
_MAP_RULES = (
    "Keys that do not belong to the kind are refused. A period can be made of any shorter unit that it has a whole\n"
    "number of: a month of hours or days, a year of hours, days, months or quarters, but neither of weeks.\n"
)
_MORE = (
    "A dataset without any key is written `[dataset.report]`. The tutorial that builds such a pipeline step by\n"
    "step: [the ledger](../tutorials/ledger.md). How secrets are sealed and who can read them:\n"
    "[credentials](../explanation/credentials.md). What commands find in their environment:\n"
    "[environment](../explanation/environment.md).\n"
)
_MANIFESTS = (
    "A manifest is a text file in UTF-8, in the format Checkm 0.7: lines of cells with ` | ` between them. The\n"
    "line `#%profile | URL` names its kind, which decides what the columns are, whatever a `#%columns` line says.\n"
    "The last line must be `#%eof`: without it part of the file may be missing, and the manifest is refused.\n"
)
_RULES = (
    "Empty cells at the end of a line may be left out. In every cell but the URL, `%20` is a blank and `%7c` a\n"
    "bar. Lines that begin with `#` and not with `#%` are comments. File names are relative, with `/` between\n"
    "folders, without `.`, `..`, backslashes or control characters. Names that differ only in case are\n"
    "accepted where the work folder and the storage keep them apart, as buckets and the file systems of Linux do;\n"
    "elsewhere the refusal names the place. A refused manifest lists all of its mistakes, with their lines. Limits:\n"
    "100,000 bytes a line; `[limits]` of the [profile](profiles.md) for the size and the number of entries.\n"
)
_SUBMISSION = (
    "`headgate ingest submit FILE_OR_URL NAME=VALUE…` describes the payload. For a batch manifest each row\n"
    "describes its own object; `primary_id`, `local_id`, `digest_type`, `digest_value`, `size` and `filename`\n"
    "then do not apply to the rows. A payload's own `mrt-erc.txt` and `mrt-dc.xml` describe the object too.\n"
    "What `--mode update` keeps of the stored version, and what is frozen when a batch starts:\n"
    "[ingest](../explanation/ingest.md#what-an-update-keeps).\n"
)


def _types() -> str:
    rows = []
    for kind in TYPES:
        if kind in payload_types.BATCHES:
            own, *others = (f"`{layout.name}`" for layout in payload_types.BATCHES[kind])
            taken = f"{own}; also {' and '.join(others)}, if its `#%profile` says so"
        elif kind == "object-manifest":
            taken = f"`{payload_types.OBJECT_LAYOUTS[0].name}`"
        else:
            taken = {
                "file": "one file, which is the object",
                "container": "a zip, tar, tar.gz (`.tgz`, `.tarz`) or tar.bz2; or one file in a `.gz` or `.bz2`",
            }[kind]
        default = " (default)" if kind == "object-manifest" else ""
        rows.append((f"`{kind}`{default}", taken, "one for each row" if kind in payload_types.BATCHES else "one"))
    return describe.table(("`--type`", "payload", "ingest jobs"), rows) + "\n"


def _kinds() -> str:
    rows = [(f"`{layout.name}`", f"`{layout.profile}`", ROWS[layout]) for layout in manifest.LAYOUTS]
    return describe.table(("kind", "`#%profile`", "what it lists"), rows) + "\n"


def _columns() -> str:
    rows = []
    for column, meaning in manifest.COLUMNS.items():
        places = [
            f"{layout.name.removeprefix('mrt-').removesuffix('-manifest')} {layout.columns.index(column) + 1}"
            for layout in manifest.LAYOUTS
            if column in layout.columns
        ]
        rows.append((f"`{column}`", ", ".join(places), meaning))
    return describe.table(("column", "its place in each kind", "meaning"), rows) + "\n"


_OCFL = (
    "`headgate ingest verify` checks stored objects, in folders and buckets, by every rule of OCFL 1.0 and 1.1\n"
    "that an object at rest can break; `headgate ingest verify --folder FOLDER` checks objects of any tool, one or\n"
    "a storage root of them. Each problem has the code that the specification gives the rule: `E…` for what an\n"
    "object must do, `W…` for what it should (shown with `--warnings`). Problems without a code are none of\n"
    "OCFL's: a file that cannot be read, or a difference between storage and inventory. Every file is read once,\n"
    "for all digests that any inventory gives it.\n\n"
    "Headgate's own objects use sha256, which OCFL allows and advises against (W004;\n"
    "[why](../decisions/0009-storing-a-version.md)). JSON with a name twice in one object is refused (E033), since\n"
    "readers differ in what they see.\n"
)


def ocfl_page() -> str:
    """The codes of OCFL, from the validator's own table."""
    found = [(f"`{code}`", said.rule) for code, said in CODES.items() if not said.unused]
    unused = [(f"`{code}`", said.rule, said.unused) for code, said in CODES.items() if said.unused]
    return "\n".join(
        [
            "# OCFL codes\n", _OCFL, "## Codes that objects are reported with\n",
            "Each sentence says what the rule asks for.\n", describe.table(("code", "rule"), found) + "\n",
            "## Codes that no object is reported with\n", describe.table(("code", "rule", "why"), unused) + "\n",
        ]
    )  # fmt: skip
