"""Each statement is BigQuery's SQL, with known columns and types that fit: by sqlglot, which is not the service."""

from __future__ import annotations

import pytest

from servers.bigquery_types import problems
from unit.warehouse.statements import REQUIRED, SCHEMA, parameters_of, statements


@pytest.mark.parametrize(("name", "statement"), statements().items())
def test_bigquery_accepts_a_statement(name: str, statement: str) -> None:
    assert problems(statement, parameters_of(statement), SCHEMA, REQUIRED) == [], name


TABLE = {"t": {"name": "STRING", "number": "INTEGER", "at": "TIMESTAMP"}}


@pytest.mark.parametrize(
    ("statement", "types", "words"),
    [
        ("SELEC name", {}, "Syntax error"),
        ("SELECT name FROM t WHERE (name = 'x'", {}, "Expecting )"),
        ("SELECT other FROM t", {}, "'other' could not be resolved"),
        ("SELECT name FROM elsewhere", {}, "Not found: Table elsewhere"),
        ("SELECT name FROM t WHERE name = @x", {"x": "INT64"}, "argument types: STRING, INT64"),
        ("SELECT name FROM t WHERE name IN UNNEST(@x)", {"x": "ARRAY<INT64>"}, "argument types: STRING, INT64"),
        ("SELECT name FROM t WHERE at >= number", {}, "argument types: TIMESTAMP, INT64"),
        ("SELECT COALESCE(name, 0) AS x FROM t", {}, "COALESCE for argument types: STRING, INT64"),
        ("SELECT CASE WHEN name = 'x' THEN 1 ELSE 'y' END AS x FROM t", {}, "CASE for argument types"),
        ("SELECT name FROM t UNION ALL SELECT number FROM t", {}, "UNION ALL for argument types"),
        ("INSERT INTO t (number) SELECT 1", {}, "column name is missing"),
        ("INSERT INTO t (name, number) SELECT 'x', @x", {"x": "STRING"}, "cannot be inserted into column number"),
        (
            "INSERT INTO t (name, number) SELECT one.a, one.b FROM UNNEST(@x) AS one",
            {"x": "ARRAY<STRUCT<a STRING, b STRING>>"},
            "Query column 2 has type STRING which cannot be inserted into column number, which has type INT64",
        ),
        ("UPDATE t SET number = @x WHERE name = 'x'", {"x": "STRING"}, "cannot be assigned to number"),
        ("DELETE FROM t WHERE other = 1", {}, "'other' could not be resolved"),
        ("BEGIN TRANSACTION;\nDELETE FROM t WHERE name = 1;\nCOMMIT TRANSACTION;", {}, "STRING, INT64"),
    ],
)
def test_bigquery_refuses_a_statement(statement: str, types: dict[str, str], words: str) -> None:
    (found, *_) = problems(statement, types, TABLE, {"t": {"name"}})
    assert words in found


@pytest.mark.parametrize(
    ("statement", "types"),
    [
        ("UPDATE t SET number = NULL, at = '2026-01-01' WHERE name = 'x'", {}),
        ("SELECT name FROM t WHERE at >= @x AND number < 1.5", {"x": "TIMESTAMP"}),
    ],
)
def test_what_bigquery_converts_is_no_problem(statement: str, types: dict[str, str]) -> None:
    assert problems(statement, types, TABLE, {"t": {"name"}}) == []
