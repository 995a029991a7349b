"""The pages whose tables the bench makes, each between two markers.

A run replaces the rows that it has measured and keeps the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Rows = Mapping[str, Sequence[str]]
    """The cells of each row after the first one, which names it."""

END = "<!-- end -->"


def begin(table: str) -> str:
    """The marker before a table."""
    return f"<!-- made by benchmarks/detectors: {table} -->"


def has(page: str, table: str) -> bool:
    """Whether a table is on a page."""
    return begin(table) in page


def in_page(page: str, table: str, rows: Rows, order: Iterable[str]) -> str:
    """Return a page with these rows in a table, in this order. A row of another name leaves the table."""
    before, rest = page.split(begin(table))
    inside, after = rest.split(END, 1)
    head, line, *old = [each for each in inside.splitlines() if each]
    lines = {each.removeprefix("| ").split(" | ")[0]: each for each in old}
    lines |= {name: row(name, cells) for name, cells in rows.items()}
    kept = [lines[name] for name in dict.fromkeys(order) if name in lines]
    return "\n".join([f"{before}{begin(table)}", "", head, line, *kept, "", f"{END}{after}"])


def names_in(page: str, table: str) -> list[str]:
    """Return the names of the rows of a table."""
    inside = page.split(begin(table))[1].split(END, maxsplit=1)[0]
    return [each.removeprefix("| ").split(" | ")[0] for each in inside.splitlines() if each.startswith("|")][2:]


def row(name: str, cells: Sequence[str]) -> str:
    """One line of a table."""
    return f"| {' | '.join([name, *cells])} |"
