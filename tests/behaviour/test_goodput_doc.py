"""The example of the cost of a run in docs/goodput.md, computed by the program."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from ml_metrics.config.accelerators import chips
from ml_metrics.config.loading import load_file
from ml_metrics.config.settings_file import read_once
from ml_metrics.core.model import JobStatus, Metric, Outcome, Verdict, Workload
from ml_metrics.core.money import money_of
from ml_metrics.measure.efficiency import (
    bill_of,
    chips_of,
    measure_efficiency,
    mfu,
    offer_of,
    run_costs,
    troubles_of,
    weekly_costs,
    words_of,
)
from ml_metrics.measure.efficiency.mfu import flops_of_step, flops_of_token, peak_of
from ml_metrics.measure.efficiency.prices import PriceBook

PAGE = (Path(__file__).parents[2] / "docs" / "goodput.md").read_text(encoding="utf-8").partition("\n## Cost and")[2]
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


def tables() -> dict[str, str]:
    """Return the last cell of each row of the page, by its first."""
    rows = re.findall(r"^\| ([^|`]+) \|.*\| ([^|]+) \|$", PAGE, re.MULTILINE)
    return {name.strip(): value.strip() for name, value in rows}


def test_the_numbers_on_the_way(tmp_path: Path) -> None:
    """Those that become no metric: operations and the peak."""
    (tmp_path / "test.yaml").write_text(TEST)
    (test,) = load_file(tmp_path / "test.yaml").tests
    model = test.efficiency.model_flops
    assert model is not None
    assert model.dense_transformer is not None
    step, peak = flops_of_step(test.efficiency), peak_of("v5e", "bf16")
    assert step is not None
    assert peak is not None
    found = tables()
    for name, number in {
        "FLOPs of a token": flops_of_token(model.dense_transformer),
        "FLOPs of a step": step.number,
        "peak": chips_of(test) * peak.flops,
    }.items():
        assert found[name] == f"{number:.3e}".replace("e+", "e"), name


def test_a_queue_that_is_billed(tmp_path: Path) -> None:
    (tmp_path / "prices.yaml").write_text(
        BOOK.replace("    purchase: on_demand", "    purchase: reserved\n    queue_is_billed: true")
    )
    (tmp_path / "test.yaml").write_text(TEST.replace("purchase: on_demand", "purchase: reserved"))
    (test,) = load_file(tmp_path / "test.yaml").tests
    prices = read_once(tmp_path / "prices.yaml", PriceBook, "the price book")
    waited = replace(RUN, queued_at=START - timedelta(minutes=15))
    found = measure_efficiency(test, waited, (STEP,), LOG, prices).values
    assert (found["cost_queue_usd"], found["cost_usd"], found["chip_hours"]) == (4.00, 21.60, 16)
    assert "`cost_queue_usd`" in PAGE


def test_the_week(tmp_path: Path, book: PriceBook) -> None:
    (tmp_path / "test.yaml").write_text(TEST)
    (test,) = load_file(tmp_path / "test.yaml").tests
    second = datetime(2026, 7, 1, 10, tzinfo=UTC)
    failed = Workload(JobStatus.FAILURE, started_at=second, ended_at=second + timedelta(minutes=30))
    rows = [
        {"run_key": key, "test": test.name, "owner": test.owner, "timestamp": run.ended_at, "dag_id": test.name,
         "job_status": run.status, "trial": None, "metric": metric, "value": value}
        for key, run, log in (("first", RUN, LOG), ("second", failed, None))
        for metric, value in measure_efficiency(test, run, (STEP,), log, book).values.items()
    ]  # fmt: skip
    runs = run_costs(rows)
    bill = bill_of(runs)
    assert (bill.chip_hours, bill.cost, f"{bill.goodput['USD']:.1f}") == (24, "27.20 USD", "50.3")
    assert {words_of(reason): money_of(amounts) for reason, amounts in bill.reasons.items()} == {
        "productive training": "13.69 USD",
        "failed runs": "9.60 USD",
        "training prep": "1.95 USD",
        "custom badput events": "1.47 USD",
        "before and after the goodput log": "0.49 USD",
    }
    worst = troubles_of(runs)[0]
    assert (worst.test, words_of(worst.reason), worst.cost) == ("llama-8b", "failed runs", "9.60 USD")


def test_the_devices_whose_peak_a_test_can_name() -> None:
    """Those of the table that are no chips of accelerators, and no others."""
    table = yaml.safe_load(Path(mfu.__file__).with_name("peaks.yaml").read_text())
    listed = {chip for line in table["peaks"] for chip in line["chips"]}
    (text,) = re.findall(r"is named\s+with (.*?)\.\n", PAGE, re.DOTALL)
    assert set(re.findall(r"`(?:peak_of: )?([\w-]+)`", text)) == listed - set(chips())


def test_the_cost_of_the_regression(tmp_path: Path, book: PriceBook) -> None:
    (tmp_path / "test.yaml").write_text(TEST)
    (test,) = load_file(tmp_path / "test.yaml").tests
    slower = Verdict("total_wall_time", Outcome.FAIL, 3660.0, None, "", reference=3600.0)
    now = datetime(2026, 7, 20, tzinfo=UTC)
    (cost,) = weekly_costs(test, [slower], None, chips=16, runs=28, offer=offer_of(test, book), book=book, now=now)
    stated = f"60 s more, on 16 chips, for 28 runs, at 1.20 USD, are {cost.units / 100:.2f} USD a week"
    assert stated in " ".join(PAGE.split())
