"""The page of the night: what the mail of the morning says, of the tests that the reader may read, and all of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from ml_metrics.alerts import SECTIONS, Night, night_of
from ml_metrics.config.policy import current_policy
from ml_metrics.ui.dashboard.page import Page, Reader
from ml_metrics.warehouse import Warehouse


def page_of_night(warehouse: Warehouse, query: Mapping[str, str], reader: Reader) -> Page:  # noqa: ARG001
    tests = set(reader.tests(warehouse))
    night = night_of(warehouse, current_policy().alert_budgets, reader.now - timedelta(days=1), reader.now, tests)
    sections = [(label, getattr(night, name)) for name, label in SECTIONS.items()]
    values = {"title": "Night", "night": night, "sections": [one for one in sections if one[1]]}
    return Page("night.html", values, document=night.document, table=lambda: _table(night))


def _table(night: Night) -> Iterator[Sequence[Any]]:
    yield ("section", "test", "text")
    for name, label in SECTIONS.items():
        yield from ((label, line.test, line.text) for line in getattr(night, name))
