"""The example of docs/efficiency.md, computed by the program."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ml_metrics.config.load import load_file
from ml_metrics.config.settings_file import read_once
from ml_metrics.efficiency.cost_regression import weekly_costs
from ml_metrics.efficiency.measure import measure_efficiency
from ml_metrics.efficiency.offers import offer_of
from ml_metrics.efficiency.prices import PriceBook
from ml_metrics.model import JobStatus, Metric, Outcome, Verdict, Workload

PAGE = (Path(__file__).parents[2] / "docs" / "efficiency.md").read_text(encoding="utf-8")
TEST, BOOK = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
START = datetime(2026, 6, 30, 23, 30, tzinfo=UTC)
RUN = Workload(JobStatus.SUCCESS, started_at=START, ended_at=START + timedelta(hours=1))
LOG = {
    "found": True,
    "started_at": START.timestamp() + 60,
    "ended_at": START.timestamp() + 3560,
    "productive_seconds": 2800.0,
    "badput_seconds": {"training_prep": 400.0},
    "custom_badput_seconds": {"EVAL": 300.0},
}
STEP = Metric("step_time_p50", 2.5, "step_time", "goodput")


@pytest.fixture
def book(tmp_path: Path) -> PriceBook:
    (tmp_path / "prices.yaml").write_text(BOOK)
    return read_once(tmp_path / "prices.yaml", PriceBook, "the price book")


def test_every_metric_of_the_page(tmp_path: Path, book: PriceBook) -> None:
    for attention in ("half", "whole"):
        path = tmp_path / f"{attention}.yaml"
        path.write_text(TEST.replace("attention: half", f"attention: {attention}"))
        (test,) = load_file(path).tests
        found = measure_efficiency(test, RUN, (STEP,), LOG, book)
        if attention == "whole":
            assert f"an MFU of {found.values['mfu']:.2f} %" in PAGE
            continue
        rows = dict(re.findall(r"^\| `(\w+)` \|.*\| ([\d.,]+)(?: %)? \|$", PAGE, re.MULTILINE))
        assert set(rows) == set(found.values), "the page explains every metric of the example"
        for name, text in rows.items():
            decimals = len(text.partition(".")[2])
            assert f"{found.values[name]:,.{decimals}f}" == text, name
        assert f"`{found.metadata['mfu.formula']}`" in PAGE
        parts = [value for name, value in found.values.items() if name.startswith("cost_") and name != "cost_usd"]
        assert round(sum(parts), 2) == found.values["cost_usd"]


def test_the_cost_of_the_regression(tmp_path: Path, book: PriceBook) -> None:
    (tmp_path / "test.yaml").write_text(TEST)
    (test,) = load_file(tmp_path / "test.yaml").tests
    slower = Verdict("total_wall_time", Outcome.FAIL, 3660.0, None, "", reference=3600.0)
    now = datetime(2026, 7, 20, tzinfo=UTC)
    (cost,) = weekly_costs(test, [slower], None, chips=16, runs=28, offer=offer_of(test, book), book=book, now=now)
    assert re.search(rf"60 s more, on 16 chips, for 28 runs, at\s1.20 USD, are {cost.units / 100:.2f} USD a week", PAGE)
