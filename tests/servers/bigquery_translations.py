"""The translations of the BigQuery emulator to DuckDB's SQL, each made once.

local-bigquery parses a statement, infers the types of its expressions and rewrites it whenever it arrives, which takes
far longer than running it. A translation depends on the statement, the types of its parameters and the tables of its
dataset, but for the names of the dataset and of the variables of a script, which are put in.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from bigquery_records import shapes
from local_bigquery.catalog import datasets
from local_bigquery.engine import database
from local_bigquery.jobs import query
from local_bigquery.sql import params, script
from local_bigquery.sql.translate import Context
from sqlglot import exp

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from local_bigquery.models import JobConfigurationQuery, QueryParameterType

REUSED = (exp.Query, exp.Insert, exp.Update, exp.Delete)
DATASET = '"\0dataset"'


class Translation(NamedTuple):
    """A statement with marks for names."""

    sql: str
    used: frozenset[str]
    tables: tuple[str, ...]


_known: dict[Any, Translation] = {}
_parse, _translate, _execute = script.parse, query.translate, query.execute
_decode = params._decode
_parsed = lru_cache(maxsize=4096)(_parse)


def install() -> None:
    """Replace what parses and translates."""
    script.parse = parse
    script.parse_script = lru_cache(maxsize=4096)(script.parse_script)
    query.translate = script.translate = translate
    query.execute = execute
    params._decode = decode


def parse(text: str) -> list[exp.Expr]:
    """Return the statements of a text. What is translated is a copy of them, so they are shared."""
    found = _parsed(text)
    if not all(isinstance(each, REUSED) for each in found):
        return _parse(text)
    for number, each in enumerate(found):
        each.meta["text"] = f"{number} {text}"
    return found


def decode(expression: str, kind: QueryParameterType) -> str:
    """Return the value of a parameter. A list is cast as a whole, not each of its fields: none of ours are bytes."""
    return expression if kind.type in {"ARRAY", "STRUCT"} else _decode(expression, kind)


def execute(
    cursor: DuckDBPyConnection, project: str, job: str | None, config: JobConfigurationQuery, *others: Any, **named: Any
) -> Any:
    """Run a job, during which no table changes its columns: only the API changes them."""
    default = config.defaultDataset
    place = (default.projectId or project, default.datasetId) if default else ()
    if not place or any(others or named.values()) or not datasets.exists(*place):
        return _execute(cursor, project, job, config, *others, **named)
    context = Context(
        *place,
        *params.bind(config.queryParameters or []),
        system={"current_job_id": job, "script.job_id": job, "session_id": None, "time_zone": "UTC"},
    )
    context.tables = shapes(*place)
    cursor.execute(f"USE {database.quote(*place)}")
    statements = script.parse_script(config.query or "")
    return query._execute(cursor, project, job, config, False, False, context, statements)


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
