"""The rows of the heatmap as HTML.

Thirty thousand cells are more than a template engine should be asked for one by one, and each byte of a cell counts
thirty thousand times: a cell that is well is a dozen bytes, and end tags that HTML does not need are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from ml_metrics.dashboard.heatmap import WELL_ONCE
from ml_metrics.dashboard.page import figure, took
from ml_metrics.dashboard.run_status import BAD, CLASSES, QUARANTINED, Letter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from ml_metrics.dashboard.heatmap import Cell, Column, Row
    from ml_metrics.dashboard.links import Links

WITH_REASON = BAD | {Letter.WARNED}
EMPTY, WELL = "<td>", "<td class=g>✓"


def rows_as_html(rows: Sequence[Row], columns: Sequence[Column], *, now: datetime, links: Links) -> Iterator[Markup]:
    """Each row of the table; every name in it is escaped."""
    for row in rows:
        cells = (_cell(row, row.cells.get(index), column, links) for index, column in enumerate(columns))
        yield Markup("".join([_head(row, now, links), *cells, "\n"]))  # noqa: S704  (every part is escaped above)


def _head(row: Row, now: datetime, links: Links) -> str:
    standing = row.standing
    about = ", ".join(filter(None, (standing.owner, standing.framework, standing.accelerator)))
    pass_rate = "-" if row.pass_rate is None else f"{row.pass_rate:.0f}%"
    goodput = "-" if row.goodput is None else f"{figure(round(row.goodput, 1))}%"
    good = standing.last_good
    since = "never" if good is None else f"{took(max(0.0, (now - good).total_seconds()))} ago"
    latest = _marked(row, row.latest, links.run(standing.newest.run_key, row.test))
    return (
        f'<tr><th scope=row><a href="{escape(links.test(row.test))}" title="{escape(about)}">{escape(row.test)}</a>'
        f"{_badges(row)}<td class=k>{pass_rate}<td class=k>{goodput}<td class=k>{since}"
        f'<td class="{CLASSES[row.latest.worst]} l">{latest}'
    )


def _badges(row: Row) -> str:
    badges = ""
    if row.quarantine:
        why = f"quarantined until {row.quarantine.until:%Y-%m-%d} by {row.quarantine.by}: {row.quarantine.reason}"
        badges += f' <b class=q tabindex=0 title="{escape(why)}">{QUARANTINED}</b>'
    if row.incident:
        known = row.incident.acknowledged_by
        sign, why = ("known", f"{known} knows: {row.incident.note}") if known else ("alert", "nobody said they know")
        badges += f' <b class={sign} tabindex=0 title="{escape(why)}">{sign}</b>'
    return badges


def _cell(row: Row, cell: Cell | None, column: Column, links: Links) -> str:
    if cell is None:
        return EMPTY
    if cell is WELL_ONCE:
        return WELL
    if cell.run_key:
        link = links.run(cell.run_key, row.test)
    else:
        day = column.day.isoformat() if column.day else ""
        link = links.test(row.test, since=day, until=day)
    name = CLASSES[cell.worst]
    return f"<td class={name}>{_marked(row, cell, link) if cell.worst in WITH_REASON else escape(cell.said)}"


def _marked(row: Row, cell: Cell, link: str) -> str:
    """Letters that lead to their run, and tell why on hover and on focus."""
    said = f"{row.test}: {cell.reason}" if cell is row.latest else cell.reason
    return f'<a href="{escape(link)}" title="{escape(said)}">{escape(cell.said)}</a>'
