"""The translations of the BigQuery emulator to DuckDB's SQL, each made once.

local-bigquery parses a statement, infers the types of its expressions and rewrites it whenever it arrives, which takes
far longer than running it. A translation depends on the statement, the types of its parameters and the tables of its
dataset, but for the names of the dataset and of the variables of a script, which are put in.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from local_bigquery.engine import database
from local_bigquery.jobs import query
from local_bigquery.sql import script
from sqlglot import exp

if TYPE_CHECKING:
    from local_bigquery.sql.translate import Context

TABLES = """
SELECT table_name, sql FROM duckdb_tables() WHERE database_name = $1 AND schema_name = $2 ORDER BY table_name
"""
REUSED = (exp.Query, exp.Insert, exp.Update, exp.Delete)
DATASET = '"\0dataset"'


class Translation(NamedTuple):
    """A statement with marks for names."""

    sql: str
    used: frozenset[str]
    tables: tuple[str, ...]


_known: dict[Any, Translation] = {}
_parse, _translate, _execute = script.parse, query.translate, query._execute
_parsed = lru_cache(maxsize=4096)(_parse)


def install() -> None:
    """Replace what parses and translates."""
    script.parse = parse
    script.parse_script = lru_cache(maxsize=4096)(script.parse_script)
    query.translate = script.translate = translate
    query._execute = execute


def parse(text: str) -> list[exp.Expr]:
    """Return the statements of a text. What is translated is a copy of them, so they are shared."""
    found = _parsed(text)
    if not all(isinstance(each, REUSED) for each in found):
        return _parse(text)
    for number, each in enumerate(found):
        each.meta["text"] = f"{number} {text}"
    return found


def execute(*job: Any) -> Any:
    """Run a job, during which no table changes its columns: only the API changes them."""
    context = job[6]
    context.tables = _tables(context)
    return _execute(*job)


def translate(tree: exp.Expr, context: Context) -> tuple[str, dict[str, Any]]:
    key = _key(tree, context)
    if key is None:
        return _translate(tree, context)
    marks = {f'"{context.dataset_id}"': DATASET, **{_variable(v): f"\0{name}" for name, v in context.variables.items()}}
    if (found := _known.get(key)) is None:
        sql, bound = _translate(tree, context)
        for name, mark in marks.items():
            sql = sql.replace(name, mark)
        in_dataset = {one for one in context.referenced if one[:2] == (context.project_id, context.dataset_id)}
        found = Translation(sql, frozenset(bound), tuple(one[2] for one in in_dataset))
        if in_dataset == context.referenced:
            _known[key] = found
    sql = found.sql
    for name, mark in marks.items():
        sql = sql.replace(mark, name)
    context.referenced |= {(context.project_id, context.dataset_id, table) for table in found.tables}
    return sql, {name: context.values[name] for name in found.used}


def _key(tree: exp.Expr, context: Context) -> Any:
    text = tree.meta.get("text") or tree.sql(dialect="bigquery")
    special = context.temporary or context.functions or context.settings or not context.dataset_id
    if special or not isinstance(tree, REUSED) or "@@" in text or not hasattr(context, "tables"):
        return None
    return text, tuple(sorted(context.parameters.items())), tuple(sorted(context.variables)), context.tables


def _variable(table: str) -> str:
    """Return the name of the table of a variable, which is like no other text."""
    return table.split('"')[1]


def _tables(context: Context) -> tuple[tuple[str, str], ...]:
    """Return the tables of the dataset with their columns."""
    found = database.fetch(TABLES, [context.project_id, context.dataset_id])
    return tuple((name, sql.partition("(")[2]) for name, sql in found)
