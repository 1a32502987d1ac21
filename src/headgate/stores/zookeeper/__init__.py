"""Locks and queue in ZooKeeper: one node per resource or item, one multi per change, one session per lease."""

from headgate.core.errors import MissingExtra

try:
    import kazoo as _kazoo  # noqa: F401 - looked for here, once, for all files of the folder
except ImportError as missing:
    raise MissingExtra("zookeeper", "ZooKeeper needs the library kazoo") from missing
