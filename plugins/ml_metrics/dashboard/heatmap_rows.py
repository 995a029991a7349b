"""The rows of the heatmap as HTML.

A page may have 30,000 cells, too many for a template engine, and each byte of a cell counts 30,000 times: the cell of
a passed run is 15 bytes, optional end tags are left out, and the page's script adds the links of these cells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from ml_metrics.dashboard.formatting import duration_text, number_text
from ml_metrics.dashboard.heatmap import PASSED_ONCE
from ml_metrics.dashboard.run_status import BAD, CLASSES, QUARANTINED, Letter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from ml_metrics.dashboard.heatmap import Cell, Column, Row
    from ml_metrics.dashboard.links import Links

WITH_REASON = BAD | {Letter.WARNED}
EMPTY, PASSED = "<td>", "<td class=g>✓"


def rows_as_html(rows: Sequence[Row], columns: Sequence[Column], *, now: datetime, links: Links) -> Iterator[Markup]:
    """Yield the rows of the table, with every name escaped."""
    for row in rows:
        cells = (_cell(row, row.cells.get(index), column, links) for index, column in enumerate(columns))
        yield Markup("".join([_head(row, now, links), *cells, "\n"]))  # noqa: S704  (every part is escaped)


def _head(row: Row, now: datetime, links: Links) -> str:
    status = row.status
    about = ", ".join(filter(None, (status.owner, status.framework, status.accelerator)))
    pass_rate = "-" if row.pass_rate is None else f"{row.pass_rate:.0f}%"
    goodput = "-" if row.goodput is None else f"{number_text(round(row.goodput, 1))}%"
    good = status.last_good
    since = "never" if good is None else f"{duration_text(max(0.0, (now - good).total_seconds()))} ago"
    latest = _linked(row, row.latest, links.run(status.newest.run_key, row.test))
    return (
        f'<tr><th scope=row><a href="{escape(links.test(row.test))}" title="{escape(about)}">{escape(row.test)}</a>'
        f"{_badges(row)}<td class=k>{pass_rate}<td class=k>{goodput}<td class=k>{since}"
        f'<td class="{CLASSES[row.latest.worst]} l">{latest}'
    )


def _badges(row: Row) -> str:
    badges = ""
    if row.quarantine:
        title = f"quarantined until {row.quarantine.until:%Y-%m-%d} by {row.quarantine.by}: {row.quarantine.reason}"
        badges += f' <b class=q tabindex=0 title="{escape(title)}">{QUARANTINED}</b>'
    if row.incident:
        by, note = row.incident.acknowledged_by, row.incident.note
        badge, title = ("ack", f"acknowledged by {by}{note and f': {note}'}") if by else ("alert", "not acknowledged")
        badges += f' <b class={badge} tabindex=0 title="{escape(title)}">{badge}</b>'
    return badges


def _cell(row: Row, cell: Cell | None, column: Column, links: Links) -> str:
    if cell is None:
        return EMPTY
    if cell is PASSED_ONCE:
        return PASSED
    if cell.run_key:
        link = links.run(cell.run_key, row.test)
    else:
        day = column.day.isoformat() if column.day else ""
        link = links.test(row.test, since=day, until=day)
    name = CLASSES[cell.worst]
    return f"<td class={name}>{_linked(row, cell, link) if cell.worst in WITH_REASON else escape(cell.text)}"


def _linked(row: Row, cell: Cell, link: str) -> str:
    """Return the letters as a link to their run, with the reason as a tooltip."""
    reason = f"{row.test}: {cell.reason}" if cell is row.latest else cell.reason
    return f'<a href="{escape(link)}" title="{escape(reason)}">{escape(cell.text)}</a>'
