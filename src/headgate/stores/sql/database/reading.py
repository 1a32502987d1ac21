"""Queries with filters, written with SQLAlchemy Core and run on our own connections.

Importing SQLAlchemy takes half a second, so this module is imported only where a query is run.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlalchemy import Select
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.engine.interfaces import Dialect as CoreDialect


def compiled(kind: str, question: Select[Any]) -> tuple[str, dict[str, Any]]:
    """The text and the parameters, in the form that the database's driver expects."""
    result = question.compile(dialect=_core_dialect(kind), compile_kwargs={"render_postcompile": True})
    return result.string, dict(result.params)


@cache
def _core_dialect(kind: str) -> CoreDialect:
    if kind == "sqlite":
        return sqlite.dialect(paramstyle="named")
    if kind == "mysql":
        return mysql.dialect(paramstyle="pyformat")
    dialect: CoreDialect = postgresql.psycopg.dialect()  # type: ignore[no-untyped-call]
    return dialect
