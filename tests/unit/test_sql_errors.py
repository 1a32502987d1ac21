"""Every error of every driver is translated to one of ours, in one place."""

import inspect
import sqlite3
from collections.abc import Iterator

import psycopg
import psycopg.errors
import pymysql
import pytest
from pymysql.constants import ER

from headgate import ForeignStore, HeadgateError, StoreMisconfigured, StoreUnavailable
from headgate.stores.sql.database.dialect import Trouble
from headgate.stores.sql.database.engine import Database
from headgate.stores.sql.dialects import dialect_for

URLS = {"sqlite": "sqlite://", "psycopg": "postgresql://host/db", "pymysql": "mysql://me@host/db"}


def classes(module: object, base: type[BaseException]) -> Iterator[type[BaseException]]:
    for _, value in inspect.getmembers(module, inspect.isclass):
        if issubclass(value, base):
            yield value


EVERY_CLASS: dict[str, set[type[BaseException]]] = {
    "sqlite": set(classes(sqlite3, sqlite3.Error)),
    "psycopg": {*classes(psycopg, psycopg.Error), *classes(psycopg.errors, psycopg.Error)},
    "pymysql": set(classes(pymysql.err, pymysql.MySQLError)),
}


@pytest.mark.parametrize("driver", URLS)
@pytest.mark.parametrize("arguments", [(), ("some text",), ("two\nlines",)], ids=["bare", "text", "lines"])
def test_every_class_of_error_is_translated(driver: str, arguments: tuple[object, ...]) -> None:
    """No driver error reaches callers."""
    database = Database(dialect_for(URLS[driver]))
    assert len(EVERY_CLASS[driver]) >= 9
    for error in EVERY_CLASS[driver]:
        raised = error(*arguments)
        assert isinstance(raised, database.dialect.errors())
        became = database.translate(raised)
        assert isinstance(became, HeadgateError)
        assert "\n" not in str(became)
        assert database.name in str(became)


def mysql_error(code: int) -> BaseException:
    """As the driver itself creates it from the server's answer."""
    default = pymysql.err.InternalError if code < 1000 else pymysql.err.OperationalError
    made: BaseException = pymysql.err.error_map.get(code, default)(code, "text")
    return made


def test_every_error_code_of_the_server_is_translated() -> None:
    database = Database(dialect_for(URLS["pymysql"]))
    codes = {value for name, value in vars(ER).items() if name.isupper()}
    assert len(codes) > 100
    for code in codes:
        assert isinstance(database.translate(mysql_error(code)), HeadgateError)


@pytest.mark.parametrize(
    ("driver", "error", "trouble"),
    [
        ("psycopg", psycopg.errors.DeadlockDetected("x"), Trouble.CONFLICT),
        ("psycopg", psycopg.errors.SerializationFailure("x"), Trouble.CONFLICT),
        ("psycopg", psycopg.errors.UniqueViolation("x"), Trouble.DUPLICATE),
        ("psycopg", psycopg.errors.LockNotAvailable("x"), Trouble.BUSY),
        ("psycopg", psycopg.errors.AdminShutdown("x"), Trouble.GONE),
        ("psycopg", psycopg.errors.CannotConnectNow("x"), Trouble.GONE),
        ("psycopg", psycopg.OperationalError("server closed the connection"), Trouble.GONE),
        ("psycopg", psycopg.errors.SyntaxError("x"), Trouble.BUG),
        ("psycopg", psycopg.errors.QueryCanceled("x"), Trouble.BUSY),
        ("psycopg", psycopg.errors.IdleInTransactionSessionTimeout("x"), Trouble.GONE),
        ("psycopg", psycopg.errors.ReadOnlySqlTransaction("x"), Trouble.GONE),
        ("psycopg", psycopg.errors.InvalidSqlStatementName("x"), Trouble.GONE),
        ("psycopg", psycopg.errors.DuplicatePreparedStatement("x"), Trouble.GONE),
        ("psycopg", psycopg.errors.InsufficientPrivilege("x"), Trouble.SETUP),
        ("psycopg", psycopg.errors.UndefinedTable("x"), Trouble.SETUP),
        ("psycopg", psycopg.OperationalError('FATAL: database "x" does not exist'), Trouble.SETUP),
        ("psycopg", psycopg.OperationalError("FATAL: password authentication failed for user"), Trouble.SETUP),
        ("psycopg", psycopg.errors.DiskFull("x"), Trouble.GONE),
        ("pymysql", mysql_error(1213), Trouble.CONFLICT),
        ("pymysql", mysql_error(1205), Trouble.BUSY),
        ("pymysql", mysql_error(1062), Trouble.DUPLICATE),
        ("pymysql", mysql_error(2006), Trouble.GONE),
        ("pymysql", mysql_error(2013), Trouble.GONE),
        ("pymysql", mysql_error(1053), Trouble.GONE),
        ("pymysql", pymysql.err.InterfaceError(0, ""), Trouble.GONE),
        ("pymysql", mysql_error(1064), Trouble.BUG),
        ("pymysql", mysql_error(1045), Trouble.SETUP),
        ("pymysql", mysql_error(1049), Trouble.SETUP),
        ("pymysql", mysql_error(1142), Trouble.SETUP),
        ("pymysql", mysql_error(1290), Trouble.GONE),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else str(value),
)
def test_retryable_errors_are_distinguished(driver: str, error: BaseException, trouble: Trouble) -> None:
    assert Database(dialect_for(URLS[driver])).dialect.classify(error) is trouble


def sqlite_error(kind: type[sqlite3.Error], code: int) -> sqlite3.Error:
    error = kind("text")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("code", "trouble"),
    [
        (sqlite3.SQLITE_BUSY, Trouble.BUSY),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, Trouble.BUSY),
        (sqlite3.SQLITE_LOCKED, Trouble.BUSY),
        (sqlite3.SQLITE_NOTADB, Trouble.FOREIGN),
        (sqlite3.SQLITE_FULL, Trouble.OTHER),
        (sqlite3.SQLITE_IOERR, Trouble.OTHER),
        (sqlite3.SQLITE_READONLY, Trouble.SETUP),
        (sqlite3.SQLITE_CANTOPEN, Trouble.SETUP),
    ],
)
def test_a_busy_file_is_retried_and_a_foreign_one_named(code: int, trouble: Trouble) -> None:
    database = Database(dialect_for("sqlite://"))
    error = sqlite_error(sqlite3.OperationalError, code)
    assert database.dialect.classify(error) is trouble
    wanted = {Trouble.FOREIGN: ForeignStore, Trouble.SETUP: StoreMisconfigured}.get(trouble, StoreUnavailable)
    assert isinstance(database.translate(error), wanted)
