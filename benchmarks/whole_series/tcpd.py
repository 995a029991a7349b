"""Series of other fields that five people marked: the Turing change point data set.

It is not shipped with the project; its files are read from `../shared/tcpd` beside it: `annotations.json` and a file
for each series, with `name` and `values` (null where a value is missing).
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from whole_series.scores import covering_of, f1_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Find = Callable[[Sequence[float]], list[int]]
    Series = tuple[list[float], list[list[int]]]

FOLDER = Path(__file__).parents[3] / "shared" / "tcpd"
SEVERAL_DIMENSIONS = {"run_log"}


def tcpd_series() -> list[Series]:
    """Return the values of each series, NaN where one is missing, and the marks of each person."""
    if not (FOLDER / "annotations.json").exists():
        return []
    people = json.loads((FOLDER / "annotations.json").read_text())
    documents = [json.loads(file.read_text()) for file in sorted(FOLDER.glob("*.json"))]
    return [
        ([math.nan if value is None else value for value in one["values"]], list(people[one["name"]].values()))
        for one in documents
        if "values" in one and one["name"] not in SEVERAL_DIMENSIONS
    ]


def tcpd_figures(find: Find, many: Sequence[Series]) -> tuple[float, float]:
    """Return the mean F1 and the mean covering of a rule."""
    found = [(_places(find, values), people, len(values)) for values, people in many]
    return (
        fmean(f1_of(people, places) for places, people, _ in found),
        fmean(covering_of(people, places, length) for places, people, length in found),
    )


def _places(find: Find, values: list[float]) -> list[int]:
    """Search the values that are not missing, and return places among all."""
    known = [place for place, value in enumerate(values) if not math.isnan(value)]
    return [known[place] for place in find([values[place] for place in known])]
