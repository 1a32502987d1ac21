"""The process that others are forked from: everything is imported, without connections and threads."""

import ctypes
import importlib
import json
import os
import signal
import socket
import sys
import traceback

from tests.faults.processes import Channel

#: Modules that a first use would import, again in each child.
PRELOADED = (
    "alembic.command",
    "headgate",
    "headgate.stores.sql.dialects.mysql.dialect",
    "headgate.stores.sql.dialects.postgresql.dialect",
    "headgate.stores.sql.dialects.sqlite.dialect",
    "headgate.stores.sql.store",
    "headgate.stores.sql.migrations.upgrade",
    "headgate.stores.sql.locks.questions",
    "headgate.stores.zookeeper.store",
    "headgate.gate",
    "kazoo.client",
    "sqlalchemy.dialects.mysql.pymysql",
    "sqlalchemy.dialects.postgresql.psycopg",
    "headgate.client.locks",
    "httpx2",
    "tests.faults.caller",
    "tests.faults.chain_worker",
    "tests.faults.fighter",
    "tests.ingest.dying",
)


def main() -> None:
    desk = socket.socket(fileno=int(sys.argv[1]))
    for name in PRELOADED:
        importlib.import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # The system reaps the children.
    while True:
        order, descriptors, _, _ = socket.recv_fds(desk, 65536, 1)
        if not order:
            return
        pid = os.fork()
        if pid == 0:
            desk.close()
            run(json.loads(order), descriptors[0])
        os.close(descriptors[0])
        desk.send(str(pid).encode())


def run(order: dict[str, object], descriptor: int) -> None:
    """Do the work in the child, and exit, whatever happens."""
    die_with_parent()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    channel = Channel(socket.socket(fileno=descriptor))
    try:
        module, _, function = str(order["work"]).partition(":")
        getattr(importlib.import_module(module), function)(channel, **order["arguments"])  # type: ignore[arg-type]
    except BaseException:  # noqa: BLE001 - the test gets every error
        channel.send("crash", text=traceback.format_exc())
        os._exit(1)
    os._exit(0)


def die_with_parent() -> None:
    set_parent_death_signal = 1
    if ctypes.CDLL(None, use_errno=True).prctl(set_parent_death_signal, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() == 1:
        os._exit(1)


if __name__ == "__main__":
    main()
