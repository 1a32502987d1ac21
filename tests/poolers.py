"""A real private pooler in front of a private server, as tests/servers.py has servers."""

import os

import psycopg
from sqlalchemy import make_url

from tests.servers import ANSWER_SECONDS, PrivateServer, find_program


class PgBouncer(PrivateServer):
    """A pooler in transaction mode in front of PostgreSQL: each transaction may use another server connection."""

    kind = "pgbouncer"
    account = "postgres"

    def __init__(self, server_url: str, pool_size: int = 3) -> None:
        super().__init__()
        self._server = make_url(server_url)
        self._pool_size = pool_size

    @property
    def url(self) -> str:
        return self.through(self._server.render_as_string(hide_password=False))

    def through(self, url: str) -> str:
        """The URL of a database on that server, through the pooler."""
        there = make_url(url).set(host="127.0.0.1", port=self.port)
        return there.render_as_string(hide_password=False)

    @classmethod
    def require_programs(cls) -> None:
        cls._program()

    def answers(self) -> bool:
        try:
            with psycopg.connect(self.url, connect_timeout=ANSWER_SECONDS):
                return True
        except psycopg.OperationalError:
            return False

    def _prepare(self) -> None:
        users, server = self.folder / "users.txt", self._server
        users.write_text(f'"{server.username}" "{server.password or ""}"\n')
        lines = [
            "[databases]",
            f"* = host={server.host} port={server.port}",
            "[pgbouncer]",
            "listen_addr = 127.0.0.1",
            f"listen_port = {self.port}",
            "unix_socket_dir =",
            "auth_type = trust",
            f"auth_file = {users}",
            "pool_mode = transaction",
            f"default_pool_size = {self._pool_size}",
            "max_client_conn = 200",
        ]
        settings = self.folder / "pgbouncer.ini"
        settings.write_text("\n".join(lines) + "\n")
        for file in (users, settings):
            file.chmod(0o644)

    def _command(self) -> list[str]:
        return [self._program(), str(self.folder / "pgbouncer.ini")]

    @staticmethod
    def _program() -> str:
        return find_program("pgbouncer", "pgbouncer", f"{os.environ.get('PATH', '')}:/usr/sbin")
