"""What Prometheus scrapes, read by its own parser."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from ml_metrics.core.model import JobStatus
from ml_metrics.ui.dashboard import scrape
from ml_metrics.ui.dashboard.app import app
from ml_metrics.ui.dashboard.scrape import SCRAPES, SECONDS
from ml_metrics.ui.openmetrics import LEFT_OUT, openmetrics
from ml_metrics.warehouse import Warehouse
from ml_metrics.warehouse.database import Database
from unit.ui.dashboard.sample_runs import FAILING, SHIFTED, STEADY, Rights, recorded

PAGE = "/metrics"


@pytest.fixture(autouse=True)
def _new_answers() -> Iterator[None]:
    SCRAPES.forget()
    yield
    SCRAPES.forget()


def series(text: str) -> dict[tuple[str, str, str], float]:
    """The value of each series, by family, test and metric; no series may be there twice."""
    found: dict[tuple[str, str, str], float] = {}
    for family in text_string_to_metric_families(text):
        assert family.type == "gauge"
        for sample in family.samples:
            key = (family.name, sample.labels.get("test", ""), sample.labels.get("metric", ""))
            assert key not in found
            found[key] = sample.value
    return found


def test_the_newest_run_of_each_readable_test_is_there(as_user: Callable[..., TestClient], filled: Warehouse) -> None:
    filled.load(recorded("tf-old", 60))
    answer = as_user(Rights(frozenset({STEADY, FAILING, "tf-old"}))).get(PAGE)
    assert answer.headers["content-type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    found = series(answer.text)
    assert {test for _, test, _ in found} == {STEADY, FAILING}
    assert found["ml_metrics_job_succeeded", STEADY, ""] == 1
    newest = {row.metric: row.value for run in filled.runs.newest(STEADY, 1) for row in filled.metrics.of_run(run.uuid)}
    assert {metric: value for (_, test, metric), value in found.items() if metric and test == STEADY} == newest
    assert newest
    assert SHIFTED in as_user().get(PAGE).text


def test_a_scrape_without_a_login_is_refused() -> None:
    assert TestClient(app).get(PAGE).status_code == 401


def test_the_warehouse_is_asked_once_for_several_scrapes(
    shown: TestClient, filled: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries: list[str] = []
    ask = Database.query
    monkeypatch.setattr(
        Database, "query", lambda self, query, **more: queries.append(query) or ask(self, query, **more)
    )
    first = shown.get(PAGE).text
    assert len(queries) == 2
    filled.load(recorded(STEADY, -0.5, status=JobStatus.FAILURE))
    queries.clear()
    assert (shown.get(PAGE).text, queries) == (first, [])
    now = scrape.time.monotonic() + SECONDS
    monkeypatch.setattr(scrape.time, "monotonic", lambda: now)
    assert series(shown.get(PAGE).text)["ml_metrics_job_succeeded", STEADY, ""] == 0


def test_the_size_is_bounded_for_each_run_and_in_all(
    shown: TestClient, filled: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled.load(recorded("tf-many", 0, more={f"m{number:03}": 1.0 for number in range(60)}))
    monkeypatch.setattr(scrape, "MOST_OF_RUN", 10)
    found = series(shown.get(PAGE).text)
    assert sum(test == "tf-many" and bool(metric) for _, test, metric in found) == 10
    assert ("ml_metrics_loss_final", "tf-many", "loss_final") in found  # what is judged comes first
    assert found[LEFT_OUT, "", ""] == 51
    for limit, most in (("MOST_SERIES", 3), ("MOST_BYTES", 2_000)):
        SCRAPES.forget()
        monkeypatch.setattr(scrape, limit, most)
        text = shown.get(PAGE).text
        found = series(text)
        assert sum(bool(metric) for *_, metric in found) <= 3 or len(text) <= 2_200
        assert {test for _, test, _ in found} >= {STEADY, SHIFTED, FAILING, "tf-many"}
        assert found[LEFT_OUT, "", ""] > 51


def test_a_scrape_that_hangs_holds_one_thread(shown: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrape, "PATIENCE", 0.01)
    held = threading.Lock()
    monkeypatch.setattr(SCRAPES, "_lock", held)
    with held:
        assert shown.get(PAGE).status_code == 503
    assert shown.get(PAGE).status_code == 200


@given(
    names=st.lists(st.text(max_size=6), max_size=6),
    units=st.lists(st.sampled_from(["s", "B", "", "tokens/s", "\n"]), min_size=6, max_size=6),
    value=st.none() | st.floats(),
    test=st.text(max_size=6),
)
@settings(max_examples=60, deadline=None)
def test_any_names_are_text_that_prometheus_parses(names: list[str], units: list[str], value: Any, test: str) -> None:
    samples = [(name, value, "", unit) for name, unit in zip(names, units, strict=False)]
    text = openmetrics([(test, datetime(2026, 1, 1, tzinfo=UTC), True, samples)])
    assert text.endswith("# EOF\n")
    families = list(text_string_to_metric_families(text))
    found = [sample for family in families for sample in family.samples]
    left_out = sum(sample.value for sample in found if sample.name == LEFT_OUT)
    assert len(found) == len(names) + 2 - left_out + bool(left_out)
