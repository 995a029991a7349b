"""The results of a campaign: a file of JSON, and the tables of Markdown that are made from it.

`PYTHONPATH=.:tests python -m campaigns.machines.tables build/machines/machines.json` writes the table of docs/runs.md.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterable

CLASSES = ("stuck", "state", "reason", "attempts", "workload", "rows", "metrics", "messages", "pods")
"""What may be wrong with a run."""
COLUMNS = ("what", "fault", "faults", "runs", "right ends")
DOCS = Path(__file__).parents[2] / "docs" / "runs.md"
BEGIN, END = "<!-- machines -->\n", "<!-- /machines -->"


class Record(TypedDict):
    """What a wave came to."""

    layout: str
    wave: int
    faults: list[dict[str, str]]
    runs: int
    seconds: float
    wrong: list[dict[str, str]]


def write(records: list[Record], seed: int, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "machines.json").write_text(json.dumps({"seed": seed, "waves": records}, indent=2) + "\n")
    (folder / "machines.md").write_text(f"{table(records)}\n\n{classes(records)}\n")


def table(records: Iterable[Record]) -> str:
    """Return how many runs ended as they should, by fault. A wave of several faults counts for each."""
    counts, total = _counts(records)
    return _lines([*sorted(counts.items()), (("all", ""), total)])


def summary(records: Iterable[Record]) -> str:
    """Return the table with one row for all that has the same kinds of faults."""
    return _lines(grouped(*_counts(records)))


def grouped(
    counts: dict[tuple[str, str], Counter[str]], total: Counter[str]
) -> list[tuple[tuple[str, str], Counter[str]]]:
    """Return the rows of a summary."""
    kinds: dict[tuple[str, ...], list[str]] = {}
    for what in sorted({what for what, _ in counts}):
        kinds.setdefault(tuple(sorted(how for each, how in counts if each == what)), []).append(what)
    rows = [
        ((", ".join(each), ", ".join(hows)), sum((counts[what, how] for what in each for how in hows), Counter[str]()))
        for hows, each in kinds.items()
    ]
    return [*rows, (("all", ""), total)]


def _counts(records: Iterable[Record]) -> tuple[dict[tuple[str, str], Counter[str]], Counter[str]]:
    counts: dict[tuple[str, str], Counter[str]] = {}
    total: Counter[str] = Counter()
    for one in records:
        found = Counter(runs=one["runs"], right=one["runs"] - len(one["wrong"]))
        total += found + Counter(faults=len(one["faults"]))
        for fault in one["faults"]:
            counts.setdefault((fault["what"], fault["how"]), Counter()).update(found + Counter(faults=1))
    return counts, total


def _lines(counts: Iterable[tuple[tuple[str, str], Counter[str]]]) -> str:
    rows = [f"| {' | '.join(COLUMNS)} |", "| --- " * len(COLUMNS) + "|"]
    rows += [
        f"| {what} | {how} | {found['faults']} | {found['runs']} | {found['right']} |" for (what, how), found in counts
    ]
    return "\n".join(rows)


def classes(records: Iterable[Record]) -> str:
    """Return what was wrong, by class, with the wave that shows it."""
    every = list(records)
    rows = []
    for name in CLASSES:
        where = [
            f"{each['layout']}, {each['wave']} ({'; '.join(fault['text'] for fault in each['faults'])}): "
            f"{one['test']}: {one[name]}"
            for each in every
            for one in each["wrong"]
            if name in one
        ]
        if where:
            rows.append(f"| {name} | {len(where)} | {'<br>'.join(where)} |".replace("\n", " "))
    heading = ["| class | runs | layouts, waves and faults |", "| --- | --- | --- |"]
    return "\n".join([*heading, *rows]) if rows else "Nothing was wrong."


def into_docs(records: list[Record], text: str) -> str:
    """Return a page whose table is that of these records."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin, f"the page has no {BEGIN.strip()}"
    assert end, f"the page has no {END}"
    return f"{before}{begin}{summary(records)}\n{end}{after}"


if __name__ == "__main__":
    found = [record for name in sys.argv[1:] for record in json.loads(Path(name).read_text())["waves"]]
    DOCS.write_text(into_docs(found, DOCS.read_text()))
