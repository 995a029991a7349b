"""The page of all comparisons and searches by trials: what each asks, how far it is, and its answer."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from ml_metrics.dashboard.page import Page
from ml_metrics.experiments.listing import experiments
from ml_metrics.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ml_metrics.dashboard.links import ServerLinks
    from ml_metrics.experiments.listing import Listed

MOST = 100
"""How many journals are read: in a bucket, each is a request."""


def page_of_experiments(readable: Callable[[Iterable[str]], frozenset[str]], links: ServerLinks) -> Page:
    """Return the page: those of the newest whose DAG and test the user may both read."""
    newest = list(islice(experiments(Settings.load().storage_root), MOST))
    dags = readable({dag_id for one in newest for dag_id in (one.dag_id, one.test)})
    shown = [one for one in newest if {one.dag_id, one.test} <= dags]
    return Page(
        "experiments.html",
        {"title": "Experiments", "experiments": shown, "most": MOST if len(newest) == MOST else None, "links": links},
        document=lambda: {"experiments": [one.document() for one in shown]},
        table=lambda: _table(shown),
    )


def _table(shown: Sequence[Listed]) -> Iterator[Sequence[Any]]:
    yield ("key", "began", "kind", "test", "asked", "runs", "max_runs", "ended", "failed", "answer")
    for one in shown:
        yield tuple(one.document().values())
