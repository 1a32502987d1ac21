"""Statements: named parameters, expanded lists, and a sentence for each statement."""

import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.stores.sql.database.sql_text import Statement, for_many, from_arrays, positional, spread, to_pyformat
from headgate.stores.sql.dialects import dialect_for
from headgate.stores.sql.dialects.mysql import dialect as mysql
from headgate.stores.sql.dialects.mysql import ledger as mysql_ledger
from headgate.stores.sql.dialects.postgresql import dialect as postgresql
from headgate.stores.sql.dialects.postgresql import ledger as postgresql_ledger
from headgate.stores.sql.dialects.sqlite import dialect as sqlite
from headgate.stores.sql.dialects.sqlite import ledger as sqlite_ledger
from headgate.stores.sql.ledger import mapping_statements, part_statements
from headgate.stores.sql.ledger import statements as ledger_statements
from headgate.stores.sql.locks import statements as lock_statements

URLS = ["sqlite://", "postgresql://host/db", "mysql://me@host/db"]
STATEMENTS = [
    pytest.param(value, id=f"{module.__name__.rpartition('.')[2]}.{name}")
    for module in (
        lock_statements,
        ledger_statements,
        mapping_statements,
        part_statements,
        sqlite,
        sqlite_ledger,
        postgresql,
        postgresql_ledger,
        mysql,
        mysql_ledger,
    )
    for name, value in inspect.getmembers(module)
    if isinstance(value, Statement)
]


def test_a_list_is_expanded_to_single_parameters() -> None:
    text, flat = spread("select * from t where k in (:keys*) and n = :n", {"keys": [b"a", b"b"], "n": 5})
    assert text == "select * from t where k in (:keys_0, :keys_1) and n = :n"
    assert flat == {"keys_0": b"a", "keys_1": b"b", "n": 5}


def test_an_empty_list_matches_nothing() -> None:
    assert spread("k in (:keys*) and n = :n", {"keys": [], "n": 5}) == ("k in (null) and n = :n", {"n": 5})


def test_a_cast_is_not_a_parameter() -> None:
    text, flat = spread("select :a::json, x::bigint", {"a": 1})
    assert text == "select :a::json, x::bigint"
    assert flat == {"a": 1}
    assert to_pyformat("select :a::json, x::bigint") == "select %(a)s::json, x::bigint"


@given(st.lists(st.integers(), max_size=20), st.lists(st.integers(), max_size=5))
def test_no_value_is_lost_or_mixed_up(many: list[int], others: list[int]) -> None:
    text, flat = spread("(:many*) (:others*) :one", {"many": many, "others": others, "one": "x"})
    assert [flat[f"many_{n}"] for n in range(len(many))] == many
    assert [flat[f"others_{n}"] for n in range(len(others))] == others
    assert len(flat) == len(many) + len(others) + 1
    assert text.count(":") == len(flat)


def test_a_parameter_that_is_missing_is_an_error() -> None:
    with pytest.raises(KeyError, match="keys"):
        spread("in (:keys*)", {})


def test_a_list_is_expanded_where_it_cannot_be_one_parameter() -> None:
    dialect = dialect_for("mysql://me@host/db")
    statement = Statement("Some.", "select {now} from t where k in (:keys*)")
    for size in (1, 3, 1):
        text, params = dialect.prepare(statement, {"keys": list(range(size))})
        assert params == {f"keys_{n}": n for n in range(size)}
        assert text.count("keys_") == size
        assert "{" not in text


@pytest.mark.parametrize(
    ("url", "listed"),
    [("sqlite://", "in (select value from json_each(:keys))"), ("postgresql://host/db", "= any(%(keys)b)")],
)
def test_a_statement_is_the_same_for_any_number_of_values(url: str, listed: str) -> None:
    dialect = dialect_for(url)
    statement = Statement("Some.", "select {now} from t where k in (:keys*)")
    texts = {dialect.prepare(statement, {"keys": [f"{n}" for n in range(size)]})[0] for size in (1, 3)}
    assert [text.partition("where k ")[2] for text in texts] == [listed]


def test_bytes_are_written_as_literals_on_sqlite() -> None:
    text, params = dialect_for("sqlite://").prepare(Statement("Some.", "k in (:keys*)"), {"keys": [b"a", b"b"]})
    assert text == "k in (:keys_0, :keys_1)"
    assert params == {"keys_0": b"a", "keys_1": b"b"}


@pytest.mark.parametrize("statement", STATEMENTS)
def test_each_statement_has_a_sentence_and_only_words_that_the_dialects_know(statement: Statement) -> None:
    assert statement.sentence[0].isupper()
    assert statement.sentence.endswith(".")
    for url in URLS:
        assert "{" not in statement.text.format(**dialect_for(url).words())


def test_no_value_is_ever_written_into_a_statement() -> None:
    """Text in quotes is a fixed word of ours, never a placeholder for a value."""
    for parameter in STATEMENTS:
        (statement,) = parameter.values
        assert isinstance(statement, Statement)
        assert "%s" not in statement.text
        assert ":'" not in statement.text
        assert "':" not in statement.text


def test_an_insert_of_one_row_becomes_one_of_several() -> None:
    one = Statement("Write it.", "insert into t (a, b) values (:a, coalesce(:b, now())) on conflict do nothing")
    assert for_many(one, 2, ("b",)).text == (
        "insert into t (a, b) values (:a, coalesce(:b_0, now())), (:a, coalesce(:b_1, now())) on conflict do nothing"
    )
    assert from_arrays(one, (("b", "text[]"),)).text == (
        "insert into t (a, b) select :a, coalesce(r.b, now()) from unnest(%(b)b::text[]) as r(b) on conflict do nothing"
    )
    listed, names = positional(one)
    assert listed.text == "insert into t (a, b) values (?, coalesce(?, now())) on conflict do nothing"
    assert names == ("a", "b")
