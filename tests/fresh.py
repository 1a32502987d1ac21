"""New empty databases, and their removal, on any server that a URL names."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pymysql
from kazoo.client import KazooClient
from psycopg import sql
from sqlalchemy import URL, make_url

from headgate.stores.sql.dialects.mysql.dialect import MysqlConnection

CONNECT_SECONDS = 10


def fresh(server_url: str) -> str:
    """The URL of a new, empty database on that server."""
    name = f"hg_{secrets.token_hex(6)}"
    match scheme(server_url):
        case "postgresql":
            create_on_postgresql(server_url, name)
        case "mysql":
            create_on_mariadb(server_url, name)
        case "zookeeper":
            # Nothing to create: the store creates its own root node.
            return f"{server_url.rstrip('/')}/{name}"
        case other:
            raise ValueError(f"no server speaks {other}://")
    return make_url(server_url).set(database=name).render_as_string(hide_password=False)


def drop(server_url: str, fresh_url: str) -> None:
    """Remove what `fresh` created, together with the connections that are still open on it."""
    name = fresh_url.rpartition("/")[2]
    match scheme(server_url):
        case "postgresql":
            drop_on_postgresql(server_url, name)
        case "mysql":
            drop_on_mariadb(server_url, name)
        case "zookeeper":
            drop_on_zookeeper(server_url, name)


def scheme(url: str) -> str:
    return url.partition("://")[0].partition("+")[0]


def create_on_postgresql(server_url: str, name: str) -> None:
    with psycopg.connect(server_url, autocommit=True, connect_timeout=CONNECT_SECONDS) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))


def drop_on_postgresql(server_url: str, name: str) -> None:
    with psycopg.connect(server_url, autocommit=True, connect_timeout=CONNECT_SECONDS) as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def create_on_mariadb(server_url: str, name: str) -> None:
    with mariadb_cursor(make_url(server_url)) as cursor:
        cursor.execute(f"CREATE DATABASE `{name}` CHARACTER SET utf8mb4")


def drop_on_mariadb(server_url: str, name: str) -> None:
    with mariadb_cursor(make_url(server_url)) as cursor:
        # A session that still holds a lock on a table would make DROP DATABASE wait for it.
        cursor.execute("SELECT id FROM information_schema.processlist WHERE db = %s", (name,))
        for (session,) in cursor.fetchall():
            kill_session(cursor, session)
        cursor.execute(f"DROP DATABASE IF EXISTS `{name}`")


def sessions(url: str) -> int:
    """How many connections a server has to that database; none, if there is no server."""
    match scheme(url):
        case "postgresql":
            with psycopg.connect(url, autocommit=True, connect_timeout=CONNECT_SECONDS) as connection:
                found = connection.execute(
                    "select count(*) - 1 from pg_stat_activity where datname = current_database()"
                ).fetchone()
        case "mysql":
            with mariadb_cursor(make_url(url)) as cursor:
                cursor.execute(
                    "select count(*) from information_schema.processlist where db = %s", (make_url(url).database,)
                )
                found = cursor.fetchone()
        case _:
            return 0
    return int(found[0]) if found else 0


def kill_session(cursor: "pymysql.cursors.Cursor", session: int) -> None:
    no_such_thread = 1094
    try:
        cursor.execute("KILL CONNECTION %s", (session,))
    except pymysql.Error as error:
        if error.args[0] != no_such_thread:
            raise


@contextmanager
def mariadb_cursor(url: URL) -> Iterator["pymysql.cursors.Cursor"]:
    connection = MysqlConnection(
        host=url.host or "127.0.0.1",
        port=url.port or 3306,
        user=url.username,
        password=url.password or "",
        connect_timeout=CONNECT_SECONDS,
        autocommit=True,
    )
    with connection, connection.cursor() as cursor:
        yield cursor


def drop_on_zookeeper(server_url: str, name: str) -> None:
    with zookeeper_client(server_url) as client:
        client.delete(f"/{name}", recursive=True)


@contextmanager
def zookeeper_client(server_url: str) -> Iterator[Any]:
    client = KazooClient(hosts=server_url.partition("://")[2])
    client.start(timeout=CONNECT_SECONDS)
    try:
        yield client
    finally:
        client.stop()
        client.close()
