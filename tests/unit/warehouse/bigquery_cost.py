"""What a statement costs in BigQuery, by its text: the columns that it reads, in the partitions that it cannot skip.

That is what BigQuery estimates before a query, and compares with the limit of a job. Clusters reduce what is read in
the end; nobody can compute how far.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

from sqlglot import exp
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import traverse_scope

from ml_metrics.core.model import Bounds, Metric, Outcome, Sweep, SweepPoint, TagCurve, Verdict
from ml_metrics.warehouse import TABLES, run_record
from ml_metrics.warehouse.tables import RUN_TABLES
from servers.bigquery_types import statements as parsed
from unit.warehouse.records import MONDAY, run_of, workload
from unit.warehouse.statements import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ml_metrics.warehouse import RunRecord

MIB = 1 << 20
LEAST_MIB = 10
"""What is billed at least for each table that a query reads."""
TESTS, METRICS, CURVES, HORIZON = 1000, 40, 2, 400
DAYS_OF_MONTH = 365 / 12
KNOWN_ROWS = {"acceptances": 1000, "alerts": 36_000, "messages": 36_000, "senders": 3, "quarantines": 500}
KNOWN_ROWS |= {"known_tests": 50}
"""The rows of other tables in a year: an incident of each test in each month, with three rows and three messages."""
TEXTS = {
    "messages": {"document": 120, "content": 0, "reasons": 200, "channels": 200, "recipients": 40, "held_because": 2},
    "known_tests": {"document": 20_000},
    "alerts": {"reasons": 200, "note": 0, "said_by": 0, "cause": 0},
}
"""The bytes of the texts in those tables; others have 30."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a statement reads."""

    read: int
    """Bytes at most."""
    tables: tuple[str, ...]
    billed: int
    """MiB, at least ten for each table."""


def cost(statement: str, days: Mapping[str, float], years: int = 1) -> Cost:
    """Return what a statement costs. `days` has how many days ago the times are that its parameters stand for."""
    reads: dict[str, float] = {}
    for each in parsed(statement):
        for table, read in _reads(each, days, years):
            reads[table] = reads.get(table, 0) + read
    billed = sum(max(LEAST_MIB, math.ceil(read / MIB)) for read in reads.values())
    return Cost(round(sum(reads.values())), tuple(sorted(reads)), billed)


def _reads(statement: exp.Expr, days: Mapping[str, float], years: int) -> Iterator[tuple[str, float]]:
    """Yield each table that is read, and the bytes."""
    match statement:
        case exp.Insert():
            yield from _of_query(statement.expression, days, years)
        case exp.Update() | exp.Delete():  # all columns of each partition with changes are written anew
            table, where = statement.this.name, statement.args["where"].this
            yield table, _rows(table, _span(where, "", days), years) * sum(widths()[table].values())
        case _:
            yield from _of_query(statement, days, years)


def _of_query(query: exp.Expr, days: Mapping[str, float], years: int) -> Iterator[tuple[str, float]]:
    lists = {one.expressions[0].name: {} for one in query.find_all(exp.Unnest) if not isinstance(one.parent, exp.In)}
    if lists:  # the rows of a load come with the job
        return
    qualified = qualify(
        query.copy(), schema={name: dict(columns) for name, columns in SCHEMA.items()}, dialect="bigquery"
    )
    for scope in traverse_scope(qualified):
        for alias, source in scope.sources.items():
            if isinstance(source, exp.Table):
                names = {column.name for column in scope.columns if column.table == alias}
                where = scope.expression.args.get("where")
                span = _span(where.this, alias, days) if where else (math.inf, 0.0)
                width = sum(widths()[source.name][name] for name in names)
                yield source.name, _rows(source.name, span, years) * width


def _span(condition: exp.Expr, alias: str, days: Mapping[str, float]) -> tuple[float, float]:
    """Return between how many days ago and how many days ago the rows are, by the conditions that prune partitions."""
    oldest, newest = math.inf, 0.0
    for part in condition.flatten() if isinstance(condition, exp.And) else [condition]:
        for one in _times(part, alias):
            parameter = one.expression.find(exp.Parameter)
            if parameter is not None and isinstance(one, exp.GTE):
                oldest = min(oldest, days.get(parameter.name, math.inf))
            elif parameter is not None:
                newest = max(newest, days.get(parameter.name, 0.0))
    return oldest, newest


def _times(part: exp.Expr, alias: str) -> Iterator[exp.GTE | exp.LT]:
    """Yield the comparisons of the partition's time; `timestamp IS NULL OR timestamp >= ...` is one as well."""
    plain = part.unnest()
    if isinstance(plain, exp.Or) and isinstance(plain.left.unnest(), exp.Is):
        right = plain.right.unnest()
        for each in right.flatten() if isinstance(right, exp.And) else [right]:
            yield from _times(each, alias)
    elif isinstance(plain, exp.GTE | exp.LT) and isinstance(plain.this, exp.Column):
        is_time = plain.this.name == "timestamp" and plain.this.table == alias
        yield from [plain] if is_time else []


def _rows(table: str, span: tuple[float, float], years: int) -> float:
    """Return the rows of the months in a time span: on average, one more than fits into the span."""
    each_day = rows_of_a_year()[table] / 365
    stored = 365.0 * years
    oldest, newest = min(span[0], stored), span[1]
    partitioned = next(one for one in TABLES if one.name == table).partition
    if not partitioned or span[0] == math.inf:
        return each_day * stored
    return each_day * min(stored, oldest - newest + DAYS_OF_MONTH)


@cache
def rows_of_a_year() -> dict[str, float]:
    sample = record().rows()
    return {**KNOWN_ROWS, **{table.name: len(sample[table.name]) * TESTS * 365 for table in RUN_TABLES}}


@cache
def widths() -> dict[str, dict[str, float]]:
    """Return the bytes of each column on average: those of a real run, and assumptions for the other tables."""
    sample = record().rows()
    found: dict[str, dict[str, float]] = {}
    for table in TABLES:
        rows = sample.get(table.name)
        found[table.name] = {
            column.name: sum(_size(row[column.name]) for row in rows) / len(rows)
            if rows
            else TEXTS.get(table.name, {}).get(column.name, 30)
            if column.kind == "STRING"
            else 8
            for column in table.columns
        }
    return found


def _size(value: Any) -> int:
    """Return the logical size of a value: nothing for null, two bytes more than its letters for a text."""
    if value is None:
        return 0
    return 2 + len(value.encode()) if isinstance(value, str) else 8


def record() -> RunRecord:
    """Return a run as a nightly test on eight accelerators records it, with all that can be known."""
    test = "jax-transformer-conv-v5litepod-16"
    names = [f"train/metric_{number:02}_final" for number in range(METRICS)]
    metrics = [
        Metric(name, 0.5, name, "final", step=1000, wall_time=MONDAY.timestamp(), unit="s", better="lower", points=1000)
        for name in names
    ]
    bounds = Bounds(0.25, 0.75)
    verdicts = [
        Verdict(name, Outcome.PASS, 0.5, bounds, "change_point, both, 100 runs", baseline_points=100, reference=0.5)
        for name in names
    ]
    curve = TagCurve("train/loss", tuple(range(0, 1000, 7)), tuple(1.0 / (step + 1) for step in range(0, 1000, 7)))
    link = "https://console.cloud.google.com/logs/query;query=" + "x" * 150
    return run_record(
        run_of(0, test),
        workload(
            0, logs_link=link, logs_command="gcloud logging read " + "x" * 130, workload_link=link, image="i" * 80
        ),
        metrics,
        verdicts,
        {f"param.name_{number}": "x" * 30 for number in range(12)},
        test_type="conv",
        accelerator="v5litepod-16",
        framework_version="jax-nightly",
        owner="vision-team",
        goodput=97.5,
        sweeps=[Sweep("train/ttft", "rate", (SweepPoint(1.0, 2.0, 3, 0.1, "saturated"),) * 20, "1/s", "ms", "lower")],
        curves={f"{curve.tag}_{number}": curve for number in range(CURVES)},
        loaded_at=MONDAY + timedelta(minutes=1),
    )
