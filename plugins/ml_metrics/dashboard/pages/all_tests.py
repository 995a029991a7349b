"""The page of all tests: a heatmap of their runs, with filters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ml_metrics.dashboard.heatmap import Filter, heatmap_of, prefix_of
from ml_metrics.dashboard.heatmap_rows import rows_as_html
from ml_metrics.dashboard.page import Page
from ml_metrics.dashboard.query import MAX_DAYS, choice, span_of, text, whole_number
from ml_metrics.dashboard.run_status import CLASSES, MEANINGS, QUARANTINED

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from ml_metrics.dashboard.heatmap import Heatmap, Row
    from ml_metrics.dashboard.links import Links
    from ml_metrics.warehouse import Warehouse

MAX_CELLS = 45_000
"""The most cells of one page of rows, which keeps it below one megabyte."""
MAX_TABS = 12
ONLY = ("", "failing", "unacknowledged")
COLUMNS = ("days", "runs")


def page_of_tests(  # noqa: PLR0913  (the report and the server differ in each)
    warehouse: Warehouse,
    query: Mapping[str, str],
    *,
    readable: Callable[[Iterable[str]], frozenset[str]],
    now: datetime,
    links: Links,
    only: Collection[str] | None = None,
    max_cells: int = MAX_CELLS,
) -> Page:
    """Return the page of all tests that the user may see.

    `readable` returns those of some DAGs that the user may read. `only` names the tests to show; None shows all.
    """
    span = span_of(query, now)
    shown = span.newest(MAX_DAYS)
    by_days = choice(query, "by", COLUMNS) == "days"
    fields = {name: text(query, name) for name in ("owner", "framework", "accelerator", "prefix")}
    wanted = Filter(**fields, text=text(query, "q"), only=choice(query, "only", ONLY))
    statuses, runs = warehouse.runs.tests(), warehouse.runs.between(shown.since, shown.until)
    dags = readable({one.newest.dag_id for one in statuses} | {run.dag_id for run in runs})
    heatmap = heatmap_of(
        statuses,
        [run for run in runs if run.dag_id in dags],
        warehouse.metrics.broken(shown.since, max(shown.until, now)),
        span=shown,
        incidents=warehouse.incidents.all_open(),
        quarantines=warehouse.quarantines.newest(),
        tests={
            one.newest.test
            for one in statuses
            if one.newest.dag_id in dags and (only is None or one.newest.test in only)
        },
        now=now,
        by_days=by_days,
    )
    rows = [row for row in heatmap.rows if wanted.matches(row)]
    size = max(1, max_cells // len(heatmap.columns))
    pages = max(1, -(-len(rows) // size))
    page = min(whole_number(query, "page", 1, 1_000_000), pages)
    on_page = rows[(page - 1) * size : page * size]
    return Page(
        "all_tests.html",
        {
            "title": "Tests",
            "span": shown,
            "notices": [f"{span.days:,} days were requested; the newest {MAX_DAYS} are shown."]
            if shown is not span
            else [],
            "selected": {**fields, "q": wanted.text, "only": wanted.only, "by": "days" if by_days else "runs"},
            "columns": heatmap.columns,
            "rows": rows_as_html(on_page, heatmap.columns, now=now, links=links),
            "count": len(rows),
            "of": len(heatmap.rows),
            "failing": sum(row.failing for row in rows),
            "unacknowledged": sum(row.unacknowledged for row in rows),
            "page": page,
            "pages": pages,
            "choices": _choices(heatmap),
            "meanings": {**{str(letter): meaning for letter, meaning in MEANINGS.items()}, QUARANTINED: "quarantined"},
            "classes": CLASSES,
            "links": links,
        },
        document=lambda: _document(rows, heatmap),
        table=lambda: _table(rows, heatmap),
    )


def _choices(heatmap: Heatmap) -> dict[str, list[str]]:
    """Return the choices of the filters. Tabs for prefixes need a few prefixes that several tests share."""
    statuses = [row.status for row in heatmap.rows]
    prefixes = sorted({prefix_of(row.test) for row in heatmap.rows})
    return {
        "owner": sorted({one.owner for one in statuses} - {""}),
        "framework": sorted({one.framework for one in statuses} - {""}),
        "accelerator": sorted({one.accelerator for one in statuses} - {""}),
        "prefix": prefixes if 1 < len(prefixes) <= MAX_TABS else [],
    }


def _document(rows: Sequence[Row], heatmap: Heatmap) -> dict[str, Any]:
    return {
        "columns": [column.day.isoformat() if column.day else int(column.label) for column in heatmap.columns],
        "tests": [
            {
                "test": row.test,
                "dag_id": row.status.newest.dag_id,
                "owner": row.status.owner,
                "framework": row.status.framework,
                "accelerator": row.status.accelerator,
                "latest": {
                    "run": row.status.newest.run_key,
                    "at": row.status.newest.at,
                    "letter": row.latest.text,
                    "reason": row.latest.reason,
                },
                "pass_rate_percent": row.pass_rate,
                "goodput_percent": row.goodput,
                "last_good": row.status.last_good,
                "quarantined_until": row.quarantine.until if row.quarantine else None,
                "incident_since": row.incident.opened_at if row.incident else None,
                "acknowledged_by": row.incident.acknowledged_by if row.incident else None,
                "cells": {
                    _column_key(heatmap, column): {
                        "letters": {str(letter): count for letter, count in cell.letters.items()},
                        "reason": cell.reason,
                    }
                    for column, cell in sorted(row.cells.items())
                },
            }
            for row in rows
        ],
    }


def _column_key(heatmap: Heatmap, column: int) -> str:
    day = heatmap.columns[column].day
    return day.isoformat() if day else heatmap.columns[column].label


def _table(rows: Sequence[Row], heatmap: Heatmap) -> Iterator[Sequence[Any]]:
    columns = range(len(heatmap.columns))
    head = ("test", "owner", "framework", "accelerator", "latest", "latest_at", "reason", "pass_rate_percent")
    yield (*head, "goodput_percent", "last_good", *(_column_key(heatmap, index) for index in columns))
    for row in rows:
        status = row.status
        yield (
            row.test, status.owner, status.framework, status.accelerator, row.latest.text,
            status.newest.at.isoformat(), row.latest.reason, row.pass_rate, row.goodput,
            status.last_good.isoformat() if status.last_good else "",
            *(row.cells[index].text if index in row.cells else "" for index in columns),
        )  # fmt: skip
