"""What a page leaves out: numbers of tests that its reader may not see, and the folders of the server."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ml_metrics.model import StoredMetric

OTHER = re.compile(r" of test (?P<test>.*?)(?= of deployment |, or off by less than |$)", re.DOTALL)
"""The test that a condition compares with, in its text."""
FOLDERS = re.compile(r"(?<![\w/.:-])/(?:[^\s/'\"`:,;()]+/)+")


def without_unreadable(
    rows: Sequence[StoredMetric], readable: Callable[[Iterable[str]], frozenset[str]]
) -> tuple[list[StoredMetric], set[str]]:
    """Return metrics without bounds and baselines that are from tests which the reader may not see, and their names.

    A test's DAG is named like the test.
    """
    others = {row.rule: match["test"] for row in rows if row.rule and (match := OTHER.search(row.rule))}
    if not others:
        return list(rows), set()
    seen = readable(set(others.values()))
    hidden = {rule for rule, test in others.items() if test not in seen}
    return (
        [_without_baseline(row) if row.rule in hidden else row for row in rows],
        {row.metric for row in rows if row.rule in hidden},
    )


def without_folders(text: str) -> str:
    """Return a text with the last names of absolute paths: the folders are none of a reader's business."""
    return FOLDERS.sub("…/", text)


def _without_baseline(row: StoredMetric) -> StoredMetric:
    return replace(row, lower=None, upper=None, reference=None, spread=None, baseline_points=None)
