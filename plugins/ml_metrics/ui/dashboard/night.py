"""The page of the night: what the mail of the morning says, of the tests that the reader may read, and all of it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from ml_metrics.alerts import SECTIONS, night_of
from ml_metrics.config.policy import current_policy
from ml_metrics.ui.dashboard.page import Page, Reader
from ml_metrics.warehouse import Warehouse


def page_of_night(warehouse: Warehouse, query: Mapping[str, str], reader: Reader) -> Page:  # noqa: ARG001  (as every page)
    tests = set(reader.tests(warehouse))
    night = night_of(warehouse, current_policy().alert_budgets, reader.now - timedelta(days=1), reader.now, tests)
    sections = [(label, getattr(night, name)) for name, label in SECTIONS.items()]
    values = {"title": "Night", "night": night, "sections": [one for one in sections if one[1]]}
    lines = [(label, line.test, line.text) for label, of_section in sections for line in of_section]
    head = ("section", "test", "text")
    return Page("night.html", values, document=night.document, table=lambda: [head, *lines])
