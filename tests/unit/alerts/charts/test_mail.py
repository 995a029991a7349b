from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.alerts.charts.frame import as_png
from ml_metrics.alerts.charts.metric import mail_chart
from ml_metrics.core.model import JobStatus, Outcome, StoredMetric

NUMBERS = st.none() | st.floats(-1e308, 1e308)


def runs(*values: float | None, lower: float | None = None, upper: float | None = None) -> list[StoredMetric]:
    """Return runs of which the last one is broken."""
    last = len(values) - 1
    return [
        StoredMetric(
            f"run {number}",
            datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number),
            "loss",
            value,
            JobStatus.SUCCESS,
            Outcome.FAIL if number == last else Outcome.PASS,
            lower=lower,
            upper=upper,
        )
        for number, value in enumerate(values)
    ]


@given(st.lists(NUMBERS, min_size=1, max_size=8), NUMBERS, NUMBERS)
def test_every_number_has_a_chart(values: list[float | None], lower: float | None, upper: float | None) -> None:
    spec = mail_chart(runs(*values, lower=lower, upper=upper))
    text = json.dumps(spec, allow_nan=False)
    assert "must be above None" not in text
    (domain,) = {tuple(layer["encoding"]["y"]["scale"]["domain"]) for layer in spec["layer"][:1]}
    assert math.isfinite(domain[0])
    assert domain[0] < domain[1]


def test_an_open_side_has_no_line_and_a_bound_has_a_label() -> None:
    spec = mail_chart(runs(0.9, 0.9, 1.8, upper=0.96))
    assert {row["side"] for row in spec["datasets"]["bounds"]} == {"upper"}
    text = json.dumps(spec)
    assert "must be below 0.96" in text
    assert "must be above" not in text


def test_the_run_of_the_mail_is_marked_even_without_a_value() -> None:
    assert [row["state"] for row in mail_chart(runs(0.9, 1.8))["datasets"]["runs"]] == ["good", "bad"]
    assert "this run: no value" in json.dumps(mail_chart(runs(0.9, None)))


def test_a_chart_is_small_and_twice_as_sharp_as_a_phone_shows_it() -> None:
    png = as_png(mail_chart(runs(*[0.9] * 29, 1.8, upper=0.96)))
    assert int.from_bytes(png[16:20]) == 720
    assert len(png) < 25_000
