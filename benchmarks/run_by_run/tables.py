"""The tables of the figures, for a terminal and for the docs."""

from __future__ import annotations

from typing import Any

Figures = dict[str, Any]
BEGIN = "<!-- made by benchmarks/online_rules.py: begin -->"
END = "<!-- made by benchmarks/online_rules.py: end -->"


def in_docs(page: str, figures: Figures) -> str:
    """Return a page with the tables that compare the rules between its two markers."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{compared(figures)}\n{END}{after}"


def compared(figures: Figures) -> str:
    """Return the tables with a row for each rule, in Markdown."""
    zoo = figures["zoo"]
    first = next(iter(zoo.values()))
    losses = f"{first['cases']} metrics, {first['losses']} losses, {first['creeps']} creeps"
    parts = [
        f"\nEvery rule, over all families ({losses}):\n",
        *_table(ZOO_HEAD, [_zoo_row(name, row) for name, row in zoo.items()]),
    ]
    if figures.get("real"):
        row = next(iter(figures["real"].values()))
        parts += [
            f"\nReal windows ({row['changes']} changes, {row['quiet']} quiet):\n",
            *_table(REAL_HEAD, [_real_row(name, row) for name, row in figures["real"].items()]),
        ]
    if figures.get("agreement"):
        small, told = figures["small"], figures["agreement"]
        share = f"{small['late']:.0f} % of {small['changes']} changes of 1 % and more"
        parts.append(f"\nIn real windows, {share} fail within 15 runs ({small['starts']:.2f} false starts).")
        found = " ".join(f"{size} %: {here} of {all_}." for size, (here, all_) in told.items())
        parts.append(f"These lasting changes, of which the search is certain, fail within 15 runs. {found}")
    return "\n".join(parts)


def tables(figures: Figures) -> str:
    """Return all tables, in Markdown: those of the rules, then `change_point` in each family of noise."""
    parts = [compared(figures)]
    families = figures["families"]
    parts += [
        f"\n`change_point: {{}}` in each family of noise ({figures['seeds']} seeds):\n",
        *_table(FAMILY_HEAD, [_family_row(name, row) for name, row in families.items()]),
    ]
    if figures.get("silent"):
        parts += ["\nLosses that could pass for ever:\n", *_table(SILENT_HEAD, _silent_rows(figures["silent"]))]
        for name, row in figures["wandering"].items():
            named = f"it is named in {row['named']} % of the runs"
            parts.append(f"\nOf {row['years']} years of {name}, {row['alarms']} alarm; {named}.")
    return "\n".join(parts)


def _silent_rows(silent: Figures) -> list[list[str]]:
    return [
        [name, f"{row['soon']} / {row['late']}", f"{row['in time']} within {row['runs']}", f"{row['quiet']}"]
        for name, row in silent.items()
    ]


SILENT_HEAD = ("history and loss, 16 series each", "told within 5 / 15 runs", "in time", "quiet twins that alarm")
ZOO_HEAD = (
    "rule",
    "found within 5 / 15 runs",
    "ever",
    "delay p50 / p90",
    "false starts",
    "failing healthy runs",
    "stuck",
    "blind",
    "creeps found, at",
)
REAL_HEAD = ("rule", "found within 5 / 15 runs", "precision", "quiet windows that alert", "false starts")
FAMILY_HEAD = ("noise", "within 5 / 15", "delay p50 / p90", "false starts", "failing", "stuck", "blind", "creeps, at")


def _zoo_row(name: str, row: Figures) -> list[str]:
    return [
        name,
        f"{row['soon']:.0f} / {row['late']:.0f} %",
        f"{row['ever']:.0f} %",
        _delays(row),
        f"{row['starts']:.2f}",
        f"{row['failing']:.1f}",
        str(row["stuck"]),
        str(row["blind"]),
        _creeps(row),
    ]


def _real_row(name: str, row: Figures) -> list[str]:
    return [
        name,
        f"{row['soon']:.0f} / {row['late']:.0f} %",
        f"{row['precision']:.0f} %",
        str(row["quiet that alert"]),
        f"{row['starts']:.2f}",
    ]


def _family_row(name: str, row: Figures) -> list[str]:
    return [
        name,
        f"{row['soon']:.0f} / {row['late']:.0f} %",
        _delays(row),
        f"{row['starts']:.2f}",
        f"{row['failing']:.1f}",
        str(row["stuck"]),
        str(row["blind"]),
        _creeps(row),
    ]


def _delays(row: Figures) -> str:
    return "" if row["delay p50"] is None else f"{row['delay p50']} / {row['delay p90']}"


def _creeps(row: Figures) -> str:
    found = f"{row['creeps found']} of {row['creeps']}"
    return found if row["crept"] is None else f"{found}, {row['crept']:.1f} %"


def _table(head: tuple[str, ...], rows: list[list[str]]) -> list[str]:
    line = ["---"] + ["---:"] * (len(head) - 1)
    return ["| " + " | ".join(cells) + " |" for cells in [head, line, *rows]]
