"""What BigQuery refuses of a statement: its grammar, unknown names, and types that do not fit, by sqlglot."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.optimizer.qualify import qualify

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Types = Mapping[str, str]

SPELLINGS = {"INTEGER": "INT64", "BIGINT": "INT64", "INT": "INT64", "FLOAT": "FLOAT64", "DOUBLE": "FLOAT64"}
SPELLINGS |= {"VARCHAR": "STRING", "TEXT": "STRING", "TIMESTAMPTZ": "TIMESTAMP", "BOOLEAN": "BOOL"}
NUMBERS = {"INT64", "FLOAT64", "NUMERIC"}
UNKNOWN = {"UNKNOWN", "NULL", ""}
COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
DECLARED = re.compile(r"\bDECLARE (?P<name>\w+) (?P<type>\w+) DEFAULT (?P<query>\(.*?\));", re.DOTALL)
SCRIPTING = re.compile(r"\b(BEGIN TRANSACTION|COMMIT TRANSACTION|END IF);|\bIF .*? THEN\b")
"""What sqlglot does not parse of a script: its queries and changes are parsed without."""


def statements(script: str) -> list[exp.Expr]:
    """Return the statements of a script. Raises ParseError for what is not BigQuery's SQL."""
    for variable in DECLARED.finditer(script):
        script = re.sub(rf"(?<!DECLARE )\b{variable['name']}\b", f"@{variable['name']}", script)
    script = SCRIPTING.sub("", DECLARED.sub(r"SELECT \g<query> AS declared;", script))
    found = [each for each in sqlglot.parse(script, dialect="bigquery") if each is not None]
    for each in found:
        if not isinstance(each, exp.Query | exp.Insert | exp.Update | exp.Delete):
            raise ParseError(f"Syntax error: {each.sql('bigquery')} is no query and no change")
    return found


def problems(
    script: str, parameters: Types, schema: Mapping[str, Types], required: Mapping[str, set[str]] | None = None
) -> list[str]:
    """Return what BigQuery would refuse of a script, in its words.

    `parameters` has their types, such as `ARRAY<STRING>`; `schema` the columns of each table; `required` those of them
    that are never null.
    """
    parameters = {**parameters, **{one["name"]: one["type"] for one in DECLARED.finditer(script)}}
    try:
        return [one for each in statements(script) for one in _of_statement(each, parameters, schema, required or {})]
    except SqlglotError as error:
        return [" ".join(str(error).split())]


def typed(query: exp.Expr, parameters: Types, schema: Mapping[str, Types]) -> exp.Expr:
    """Return a query with the table and the type of each column."""
    statement, lines = _without_lists(query.copy(), parameters)
    for one in list(statement.find_all(exp.Parameter)):
        one.replace(exp.cast(exp.null(), parameters[one.name], dialect="bigquery"))
    every = {table: dict(columns) for table, columns in schema.items()} | lines
    found = qualify(statement, schema=every, dialect="bigquery", validate_qualify_columns=True)
    return annotate_types(found, schema=every, dialect="bigquery")


def _without_lists(statement: exp.Expr, parameters: Types) -> tuple[exp.Expr, dict[str, dict[str, str]]]:
    """Make `UNNEST(@rows) AS line` a table, and `x IN UNNEST(@names)` a comparison with one value."""
    lines: dict[str, dict[str, str]] = {}
    for unnest in list(statement.find_all(exp.Unnest)):
        kind = parameters[unnest.expressions[0].name].removeprefix("ARRAY<").removesuffix(">")
        holder = unnest.parent
        if isinstance(holder, exp.In):
            holder.replace(exp.EQ(this=holder.this, expression=exp.cast(exp.null(), kind, dialect="bigquery")))
            continue
        fields = [field.split(" ", 1) for field in kind.removeprefix("STRUCT<").removesuffix(">").split(", ")]
        table = f"rows_of_{unnest.expressions[0].name}"
        lines[table] = dict(fields)
        alias = unnest.args["alias"]
        name = alias.name or alias.columns[0].name
        unnest.replace(exp.alias_(exp.to_table(table), name, table=True))
    return statement, lines


def _of_statement(
    statement: exp.Expr, parameters: Types, schema: Mapping[str, Types], required: Mapping[str, set[str]]
) -> Iterator[str]:
    unknown = {table.name for table in statement.find_all(exp.Table)} - set(schema)
    if names := sorted(unknown - {cte.alias for cte in statement.find_all(exp.CTE)}):
        yield f"Not found: Table {names[0]}"
        return
    match statement:
        case exp.Insert():
            yield from _of_insert(statement, parameters, schema, required)
        case exp.Update() | exp.Delete():
            yield from _of_change(statement, parameters, schema)
        case _:
            yield from _mismatches(typed(statement, parameters, schema))


def _of_insert(
    insert: exp.Insert, parameters: Types, schema: Mapping[str, Types], required: Mapping[str, set[str]]
) -> Iterator[str]:
    table = insert.this.this.name
    names = [column.name for column in insert.this.expressions]
    if missing := sorted(required.get(table, set()) - set(names)):
        yield f"Required column value for column {missing[0]} is missing"
    query = typed(insert.expression, parameters, schema)
    yield from _mismatches(query)
    if len(query.selects) != len(names):
        yield f"Inserted row has wrong column count; Has {len(query.selects)}, expected {len(names)}"
        return
    for place, (name, value) in enumerate(zip(names, query.selects, strict=True), 1):
        if name not in schema[table]:
            yield f"Column {name} is not present in table {table}"
        elif not _fits(_type(value), wanted := _spelling(schema[table][name]), value):
            yield (
                f"Query column {place} has type {_type(value)} which cannot be inserted into column {name}, "
                f"which has type {wanted}"
            )


def _of_change(statement: exp.Update | exp.Delete, parameters: Types, schema: Mapping[str, Types]) -> Iterator[str]:
    table = statement.this.name
    where = statement.args["where"].this.copy()
    values = [one.expression.copy().as_(one.this.name) for one in statement.expressions]
    query = exp.select(*(values or ["1 AS one"])).from_(statement.this.copy()).where(where)
    found = typed(query, parameters, schema)
    yield from _mismatches(found)
    for value in found.selects if values else ():
        if value.alias not in schema[table]:
            yield f"Column {value.alias} is not present in table {table}"
        elif not _fits(_type(value), wanted := _spelling(schema[table][value.alias]), value):
            yield f"Value of type {_type(value)} cannot be assigned to {value.alias}, which has type {wanted}"


def _mismatches(query: exp.Expr) -> Iterator[str]:
    for one in query.find_all(*COMPARISONS):
        left, right = _type(one.left), _type(one.right)
        if not _comparable(left, right, one.left, one.right):
            where = one.sql("bigquery")
            yield f"No matching signature for operator {one.key} for argument types: {left}, {right}: {where}"
    for case in query.find_all(exp.Case):
        results = [branch.args["true"] for branch in case.args["ifs"]]
        yield from _unlike("CASE", [*results, *filter(None, [case.args.get("default")])])
    for one in query.find_all(exp.Coalesce):
        yield from _unlike("COALESCE", [one.this, *one.expressions])
    for union in query.find_all(exp.Union):
        if len(union.left.selects) != len(union.right.selects):
            yield "Queries in UNION ALL have mismatched column count"
            continue
        for left, right in zip(union.left.selects, union.right.selects, strict=True):
            yield from _unlike("UNION ALL", [left, right])


def _unlike(what: str, values: list[exp.Expr]) -> Iterator[str]:
    for value in values[1:]:
        if not _comparable(_type(values[0]), _type(value), values[0], value):
            yield f"No matching signature for {what} for argument types: {_type(values[0])}, {_type(value)}"


def _comparable(left: str, right: str, *values: exp.Expr) -> bool:
    return _fits(left, right, values[0]) or _fits(right, left, values[1])


def _fits(found: str, wanted: str, value: exp.Expr) -> bool:
    """Return whether a value is coerced: numbers to wider ones, and a literal text to a time."""
    literal = value.unalias()
    if found == wanted or found in UNKNOWN or wanted in UNKNOWN or isinstance(literal, exp.Null):
        return True
    if found == "STRING" and wanted == "TIMESTAMP":
        return bool(isinstance(literal, exp.Literal) and literal.is_string)
    return found == "INT64" and wanted in NUMBERS


def _type(value: exp.Expr) -> str:
    return _spelling(value.type.sql("bigquery")) if value.type is not None else ""


def _spelling(name: str) -> str:
    return SPELLINGS.get(name.upper(), name.upper())
