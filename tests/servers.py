"""Real private servers: PostgreSQL, MariaDB and ZooKeeper on free loopback ports, data in a temporary folder.

with PostgreSQL() as server:
    url = server.fresh()      # a brand-new empty database
    server.kill()             # SIGKILL; what was not made durable is gone
    server.restart()          # same port, same data

Durability is left as the servers ship it (fsync on): fault tests are worth nothing without. Each server runs
under tests/supervise.py, which takes it down even when the test run itself is killed.
"""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar, Self

import psycopg
import pymysql
from sqlalchemy import make_url

from tests import fresh, supervise
from tests.certificates import Certificate
from tests.waiting import until

START_SECONDS = 60.0
STOP_SECONDS = 30.0
ANSWER_SECONDS = 2
#: Below the range from which systems pick ports for outgoing connections: no client can take a server's port
#: while that server is down.
PORTS = range(15_000, 32_000)


class Unavailable(Exception):
    """This kind of server is not available here; the text says what is missing and how to install it."""


class ServerFailed(Exception):
    """The server ended or did not answer; the text ends with its log."""


class Throwaway(ABC):
    """A context manager for something that runs."""

    @abstractmethod
    def start(self) -> Self:
        """Start, and wait until it answers."""

    @abstractmethod
    def discard(self) -> None:
        """Kill it and remove its folder."""

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.discard()
            raise

    def __exit__(self, *_: object) -> None:
        self.discard()


class PrivateServer(Throwaway):
    """A private server, which a test may kill, suspend and restart. With a certificate, it supports TLS too."""

    kind: ClassVar[str]
    #: The user that runs the server when we are root; it may refuse to run as root.
    account: ClassVar[str] = ""
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM

    def __init__(self, certificate: Certificate | None = None) -> None:
        self.require_programs()
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix=f"headgate-{self.kind}-"))
        self.data = self.folder / "data"
        self.log = self.folder / "server.log"
        self._user = self.account if os.geteuid() == 0 else ""
        self._prepared = False
        self._pid = 0
        self._supervisor: subprocess.Popen[str] | None = None
        self._certificate = self._own(certificate) if certificate else None
        if self._user:
            shutil.chown(self.folder, self._user, self._user)

    @property
    @abstractmethod
    def url(self) -> str:
        """The URL of the server, as Headgate spells it."""

    @classmethod
    @abstractmethod
    def require_programs(cls) -> None:
        """Raise Unavailable when something that the server needs is not installed."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether it serves requests now."""

    @abstractmethod
    def _prepare(self) -> None:
        """Create the data folder, once, before the first start."""

    @abstractmethod
    def _command(self) -> list[str]:
        """The command to run; it stays in the foreground."""

    def _first_started(self) -> None:
        """Set up the running server, once."""

    @property
    def pid(self) -> int:
        """The main process of the running server."""
        if not self.running:
            raise ServerFailed(f"{self.kind} is not running")
        return self._pid

    @property
    def running(self) -> bool:
        return self._supervisor is not None and self._supervisor.poll() is None

    def start(self) -> Self:
        """Start, and return when it answers."""
        self.launch()
        self.wait_until_answering()
        if not self._prepared:
            self._first_started()
            self._prepared = True
        return self

    def launch(self) -> None:
        """Start without waiting for an answer."""
        if self.running:
            raise ServerFailed(f"{self.kind} is running already")
        if not self._prepared:
            self._prepare()
        self._supervise(self._command())

    def wait_until_answering(self) -> None:
        until(self._answers_or_fails, f"{self.kind} to answer", START_SECONDS)

    def stop(self) -> None:
        """Shut it down cleanly, and return when it has exited."""
        if self.running:
            self.resume()
            os.kill(self.pid, self.stop_signal)
            self._await_exit()

    def kill(self) -> None:
        """SIGKILL the main process, as a crash would; return when it and its children are gone."""
        if not self.running:
            return
        children = supervise.descendants(self.pid)
        supervise.send(self.pid, signal.SIGKILL)
        for child in children:
            supervise.send(child, signal.SIGCONT)
        self._await_exit()

    def restart(self) -> Self:
        """Stop it if it runs, and start it on the same port with the same data."""
        self.stop()
        return self.start()

    def pause(self) -> None:
        """Suspend all of its processes: connections stay open, nothing answers."""
        # The main process first, so that it starts no child meanwhile.
        os.kill(self.pid, signal.SIGSTOP)
        for pid in supervise.descendants(self.pid):
            supervise.send(pid, signal.SIGSTOP)
        # Each thread stops when it runs next; until then it may answer one more request.
        until(lambda: all(map(supervise.stopped, (self.pid, *supervise.descendants(self.pid)))), f"{self.kind} to stop")

    def resume(self) -> None:
        for pid in (*supervise.descendants(self.pid), self.pid):
            supervise.send(pid, signal.SIGCONT)

    def discard(self) -> None:
        """Kill it and remove its folder."""
        if self._supervisor is not None and self.running:
            # The supervisor does both, and finishes even when this process is killed meanwhile.
            self._supervisor.terminate()
            self._await_exit()
        shutil.rmtree(self.folder, ignore_errors=True)

    def fresh(self) -> str:
        """The URL of a brand-new empty database on this server."""
        return fresh.fresh(self.url)

    def _own(self, certificate: Certificate) -> Certificate:
        """A copy of the certificate that only the server can read, as servers want it."""
        kept = Certificate(self.folder / "server.pem", self.folder / "server.key")
        for source, target in ((certificate.cert, kept.cert), (certificate.key, kept.key)):
            target.touch(mode=0o600)
            target.write_bytes(source.read_bytes())
            if self._user:
                shutil.chown(target, self._user, self._user)
        return kept

    def _run(self, command: list[str]) -> None:
        """Run a command to its end as the server's user."""
        self._supervise(command)
        if self._await_exit() != 0:
            raise ServerFailed(f"{command[0]} failed\n{self._log_tail()}")

    def _supervise(self, command: list[str]) -> None:
        self._supervisor = subprocess.Popen(
            [sys.executable, "-I", supervise.__file__, *self._supervisor_arguments(), *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            # Out of reach of the terminal's interrupt key, which only the test run should handle.
            start_new_session=True,
        )
        assert self._supervisor.stdout is not None
        with self._supervisor.stdout as answer:
            line = answer.readline()
        if not line:
            raise ServerFailed(f"{command[0]} could not be started")
        self._pid = int(line)

    def _supervisor_arguments(self) -> list[str]:
        return [str(os.getpid()), str(self.folder), str(self.log), self._user]

    def _await_exit(self) -> int:
        assert self._supervisor is not None
        return self._supervisor.wait(STOP_SECONDS)

    def _answers_or_fails(self) -> bool:
        if not self.running:
            raise ServerFailed(f"{self.kind} ended while starting\n{self._log_tail()}")
        return self.answers()

    def _log_tail(self) -> str:
        if not self.log.exists():
            return "(no log)"
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])


class PostgreSQL(PrivateServer):
    kind = "postgresql"
    account = "postgres"
    stop_signal = signal.SIGINT  # "fast": does not wait for clients to leave

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    @classmethod
    def require_programs(cls) -> None:
        cls._program("postgres")

    def answers(self) -> bool:
        try:
            with psycopg.connect(self.url, connect_timeout=ANSWER_SECONDS):
                return True
        except psycopg.OperationalError:
            return False

    def _prepare(self) -> None:
        # --no-sync is about initdb's own files only; the server that runs on them has fsync on.
        options = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"]
        self._run([self._program("initdb"), f"--pgdata={self.data}", *options])

    def _command(self) -> list[str]:
        settings = {
            "port": self.port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "on",
            "synchronous_commit": "on",
            "shared_buffers": "32MB",
            "max_connections": 200,
            # In the data folder: elsewhere, what a killed server leaves would stay.
            "dynamic_shared_memory_type": "mmap",
        }
        if self._certificate:
            settings |= {"ssl": "on", "ssl_cert_file": self._certificate.cert, "ssl_key_file": self._certificate.key}
        options = [f"--{name}={value}" for name, value in settings.items()]
        return [self._program("postgres"), "-D", str(self.data), *options]

    @staticmethod
    def _program(name: str) -> str:
        """Debian keeps PostgreSQL's own programs outside the PATH, one folder for each version."""
        versions = Path("/usr/lib/postgresql").glob("*/bin")
        newest_first = sorted(versions, key=lambda folder: float(folder.parent.name), reverse=True)
        folders = [*map(str, newest_first), os.environ.get("PATH", "")]
        return find_program(name, "postgresql", os.pathsep.join(folders))


class MariaDB(PrivateServer):
    kind = "mariadb"
    account = "mysql"

    @property
    def url(self) -> str:
        return f"mysql://root@127.0.0.1:{self.port}/test"

    @classmethod
    def require_programs(cls) -> None:
        cls._program("mariadbd")
        cls._program("mariadb-install-db")

    def answers(self) -> bool:
        try:
            with pymysql.connect(
                host="127.0.0.1",
                port=self.port,
                user="root",
                connect_timeout=ANSWER_SECONDS,
                read_timeout=ANSWER_SECONDS,
            ):
                return True
        except pymysql.OperationalError:
            return False

    def _prepare(self) -> None:
        options = ["--auth-root-authentication-method=normal", "--skip-test-db", *self._sizes()]
        program = self._program("mariadb-install-db")
        self._run([program, "--no-defaults", f"--datadir={self.data}", *options])

    def _first_started(self) -> None:
        fresh.create_on_mariadb(self.url, make_url(self.url).database or "")

    def _command(self) -> list[str]:
        options = {
            "datadir": self.data,
            "port": self.port,
            "bind-address": "127.0.0.1",
            "socket": self.folder / "server.sock",
            "pid-file": self.folder / "server.pid",
            "innodb-flush-log-at-trx-commit": 1,
            "character-set-server": "utf8mb4",
            "max-connections": 200,
        }
        if self._certificate:
            options |= {"ssl-cert": self._certificate.cert, "ssl-key": self._certificate.key}
        spelt = [f"--{name}={value}" for name, value in options.items()]
        return [self._program("mariadbd"), "--no-defaults", *spelt, *self._sizes()]

    @staticmethod
    def _sizes() -> list[str]:
        return ["--innodb-buffer-pool-size=64M", "--innodb-log-file-size=16M", "--performance-schema=OFF"]

    @staticmethod
    def _program(name: str) -> str:
        return find_program(name, "mariadb-server", f"{os.environ.get('PATH', '')}:/usr/sbin")


class ZooKeeper(PrivateServer):
    kind = "zookeeper"
    jar: ClassVar[Path] = Path("/usr/share/java/zookeeper.jar")
    #: TLS needs it, and Debian's jar does not name it.
    codec: ClassVar[Path] = Path("/usr/share/java/netty-codec.jar")

    def __init__(self, certificate: Certificate | None = None) -> None:
        super().__init__(certificate)
        self._ensemble_lines: list[str] = []
        self._number = 1
        self.secure_port = free_port()

    @property
    def url(self) -> str:
        return f"zookeeper://127.0.0.1:{self.port}"

    @classmethod
    def require_programs(cls) -> None:
        find_program("java", "default-jre-headless")
        if not cls.jar.exists():
            raise Unavailable(f"{cls.jar} is missing: install the Debian package zookeeper")

    def answers(self) -> bool:
        return self.mode() != ""

    def mode(self) -> str:
        """standalone, leader or follower; empty while it does not serve."""
        lines = self._ask("srvr").splitlines()
        return next((line.split()[1] for line in lines if line.startswith("Mode:")), "")

    def join(self, number: int, ensemble_lines: list[str]) -> None:
        """Become a member of an ensemble; to be called before the first start."""
        self._number = number
        self._ensemble_lines = ensemble_lines

    def _ask(self, word: str) -> str:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=ANSWER_SECONDS) as connection:
                connection.sendall(word.encode())
                with connection.makefile() as answer:
                    return answer.read()
        except OSError:
            return ""

    def _prepare(self) -> None:
        self.data.mkdir()
        (self.data / "myid").write_text(f"{self._number}\n")
        settings = {
            # The shortest session that a client may ask for is two ticks: one second.
            "tickTime": 500,
            "dataDir": self.data,
            "clientPort": self.port,
            "clientPortAddress": "127.0.0.1",
            "maxClientCnxns": 0,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "srvr,mntr,cons,wchs,dump",
            "initLimit": 20,
            "syncLimit": 10,
        }
        if self._certificate:
            settings |= {
                "secureClientPort": self.secure_port, "secureClientPortAddress": "127.0.0.1",
                "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory", "ssl.clientAuth": "none",
                "ssl.keyStore.location": self._certificate.both, "ssl.keyStore.type": "PEM",
                "ssl.trustStore.location": self._certificate.both, "ssl.trustStore.type": "PEM",
            }  # fmt: skip
        lines = [f"{name}={value}" for name, value in settings.items()] + self._ensemble_lines
        (self.folder / "zoo.cfg").write_text("\n".join(lines) + "\n")

    def _command(self) -> list[str]:
        properties = {
            "zookeeper.forceSync": "yes",
            "zookeeper.preAllocSize": 4096,  # KiB of transaction log claimed at once; 64 MiB by default
            "zookeeper.root.logger": "WARN,CONSOLE",
        }
        return [
            find_program("java", "default-jre-headless"),
            *("-Xmx256m", "-XX:+UseSerialGC", "-XX:-UsePerfData"),
            *(f"-D{name}={value}" for name, value in properties.items()),
            *("-cp", f"/etc/zookeeper/conf:{self.jar}:{self.codec}"),
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            str(self.folder / "zoo.cfg"),
        ]


KINDS: dict[str, type[PrivateServer]] = {server.kind: server for server in (PostgreSQL, MariaDB, ZooKeeper)}


def is_alive(pid: int) -> bool:
    return supervise.parent_of(Path("/proc") / str(pid)) is not None


#: Ports that were assigned already, possibly to servers that do not listen yet.
_GIVEN: set[int] = set()


def free_port() -> int:
    """A port that is free, and that this process has not assigned before."""
    while True:
        port = secrets.choice(PORTS)
        if port in _GIVEN:
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _GIVEN.add(port)
        return port


def find_program(name: str, package: str, path: str | None = None) -> str:
    program = shutil.which(name, path=path)
    if program is None:
        raise Unavailable(f"the program {name} is missing: install the Debian package {package}")
    return program
