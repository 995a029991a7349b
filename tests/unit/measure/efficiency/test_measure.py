from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ml_metrics import TestDefinition
from ml_metrics.core.kinds import cost_metric, kind_of
from ml_metrics.core.model import JobStatus, Metric, Workload
from ml_metrics.measure.efficiency import chips_of, measure_efficiency, reasons_for
from ml_metrics.measure.efficiency.prices import PriceBook
from ml_metrics.measure.goodput import Bucket

START = datetime(2026, 6, 1, 12, tzinfo=UTC)
RUN = Workload(
    JobStatus.SUCCESS, queued_at=START - timedelta(minutes=5), started_at=START, ended_at=START + timedelta(hours=1)
)
PRICE = {
    "accelerator": "v5e", "region": "us-central1", "purchase": "on_demand", "currency": "USD", "from": "2026-01-01",
}  # fmt: skip


def definition(**keys: Any) -> TestDefinition:
    return TestDefinition.model_validate(
        {"name": "train", "accelerator": "v5litepod-16", "image": "i", "command": ["c"], "owner": "team", **keys}
    )


def book(**more: Any) -> PriceBook:
    prices = [
        {**PRICE, "per_chip_hour": 1.2},
        {**PRICE, "per_chip_hour": 0.4, "purchase": "spot"},
        {**PRICE, "per_chip_hour": 2, "region": "europe-west4", "currency": "EUR"},
    ]
    return PriceBook.model_validate({"title": "made up", "prices": prices, **more})


def figures(test: TestDefinition, workload: Workload = RUN, **more: Any) -> dict[str, float]:
    given = {"goodput": None, "book": book(), **more}
    return measure_efficiency(test, workload, (), **given).values


GKE, TOPOLOGY = "cloud.google.com/gke", "topology.kubernetes.io"
HERE = {"region": "us-central1", "purchase": "on_demand"}


def test_the_cost_of_a_run_and_its_prices() -> None:
    found = measure_efficiency(definition(efficiency=HERE), RUN, (), None, book())
    assert found.values == {"chip_hours": 16.0, "cost_usd": 19.2}
    words = "1.2 USD from 2026-01-01, a chip hour (v5e, on demand, in us-central1; made up)"
    assert found.metadata["cost.prices"] == words


@pytest.mark.parametrize(
    ("keys", "name", "value"),
    [
        ({"efficiency": {"region": "us-central1", "purchase": "spot"}}, "cost_usd", 6.4),
        ({"efficiency": {"region": "us-central1"}, "node_selector": {f"{GKE}-spot": "true"}}, "cost_usd", 6.4),
        ({"efficiency": {"purchase": "spot"}, "node_selector": {f"{TOPOLOGY}/zone": "us-central1-a"}}, "cost_usd", 6.4),
        (
            {"efficiency": {"purchase": "on_demand"}, "node_selector": {f"{TOPOLOGY}/region": "europe-west4"}},
            "cost_eur", 32.0,
        ),
        (
            {"efficiency": {"purchase": "spot"}, "cluster": {"project": "p", "location": "us-central1-b", "name": "c"}},
            "cost_usd", 6.4,
        ),
        ({"efficiency": HERE, "job_set": {"slices": 3}}, "cost_usd", 57.6),
    ],
)  # fmt: skip
def test_region_and_purchase_are_those_that_the_test_states(keys: dict[str, Any], name: str, value: float) -> None:
    assert figures(definition(**keys))[name] == value


def test_the_defaults_of_the_book_come_last() -> None:
    prices = book(defaults={"region": "us-central1", "purchase": "spot"})
    assert figures(definition(), book=prices)["cost_usd"] == 6.4
    assert figures(definition(efficiency={"purchase": "on_demand"}), book=prices)["cost_usd"] == 19.2


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({}, "its region is unknown"),
        ({"efficiency": {"region": "us-central1"}}, "spot, on demand or reserved"),
        ({"efficiency": {**HERE, "region": "mars"}}, "no price for v5e, on demand, in mars"),
        ({"efficiency": HERE, "accelerator": "h100x8"}, "no price for h100"),
    ],
)
def test_a_cost_that_is_unknown_is_missing_with_its_reason(keys: dict[str, Any], why: str) -> None:
    found = measure_efficiency(definition(**keys), RUN, (), None, book())
    assert list(found.values) == ["chip_hours"]
    assert why in found.missing["cost"]
    assert found.warnings
    assert why in reasons_for(["cost_usd", "loss_final", "cost_stall_usd"], found.missing)["cost_usd"]


def test_every_attempt_holds_chips() -> None:
    earlier = (
        (START - timedelta(hours=3), START - timedelta(hours=2)),
        (START - timedelta(hours=1), START - timedelta(minutes=30)),
    )
    assert figures(definition(efficiency=HERE), replace(RUN, earlier=earlier))["cost_usd"] == 48.0


def test_an_attempt_of_unknown_end_makes_the_cost_unknown() -> None:
    found = measure_efficiency(
        definition(efficiency=HERE), replace(RUN, earlier=((START - timedelta(hours=3), None),)), (), None, book()
    )
    assert found.values == {}
    assert found.missing["cost"] == "it is unknown when the workload of start 1 ended"


def test_a_run_that_never_started_held_no_chips_and_has_no_cost() -> None:
    found = measure_efficiency(definition(efficiency=HERE), Workload(JobStatus.MISSED), (), None, book())
    assert found.values == {"chip_hours": 0.0}
    assert found.missing["cost"] == "the workload never started"


def test_without_a_book_there_are_chip_hours_only() -> None:
    found = measure_efficiency(definition(), RUN, (), None, None)
    assert list(found.values) == ["chip_hours"]
    assert found.warnings == ()
    assert "set [ml_metrics] price_book" in found.missing["cost"]


def goodput(**seconds: float) -> dict[str, Any]:
    return {
        "found": True,
        "started_at": START.timestamp() + 60,
        "ended_at": START.timestamp() + 3590,
        "productive_seconds": 3000.0,
        "badput_seconds": {"data_loading_async": 9000.0, "stall": 30.0, **seconds},
        "custom_badput_seconds": {"EVAL": 400.0, "SAVE": 100.0},
    }


def test_the_cost_of_each_bucket() -> None:
    found = figures(definition(efficiency=HERE), goodput=goodput())
    parts = {name: value for name, value in found.items() if name not in {"cost_usd", "chip_hours"}}
    assert parts == {
        "cost_productive_usd": 16.0, "cost_stall_usd": 0.16, "cost_custom_badput_events_usd": 2.67,
        "cost_outside_log_usd": 0.37,
    }  # fmt: skip
    assert round(sum(parts.values()), 2) == found["cost_usd"] == 19.2


def test_buckets_that_cannot_be_are_missing_and_the_cost_is_not() -> None:
    found = measure_efficiency(definition(efficiency=HERE), RUN, (), goodput(other=9e9), book())
    assert "cost_usd" in found.values
    assert "longer than the chips were held" in reasons_for(["cost_stall_usd"], found.missing)["cost_stall_usd"]


@pytest.mark.parametrize(
    ("keys", "chips"),
    [
        ({}, 16),
        ({"accelerator": "cpu"}, 1),
        ({"accelerator": "cpu", "hosts": 3}, 3),
        ({"accelerator": "h100x8", "hosts": 4}, 32),
        ({"job_set": {"slices": 2}}, 32),
        ({"accelerator": "v3-8"}, 4),
    ],
)
def test_chips_of_all_hosts_and_slices(keys: dict[str, Any], chips: int) -> None:
    assert chips_of(definition(**keys)) == chips


def test_utilisation_uses_the_recorded_step_time() -> None:
    step = Metric("step_time_p50", 2.0, "step_time", "goodput")
    found = measure_efficiency(definition(efficiency={**HERE, "flops_per_step": 3e15}), RUN, (step,), None, book())
    assert found.values["mfu"] == pytest.approx(3e15 / (2 * 16 * 197e12) * 100)


@pytest.mark.parametrize("seconds", [0, -1])
def test_a_run_within_one_second_costs_nothing(seconds: int) -> None:
    """The clocks of a cluster are in whole seconds: start and end may be equal, or in the wrong order by one."""
    workload = replace(RUN, ended_at=START + timedelta(seconds=seconds))
    found = measure_efficiency(definition(efficiency=HERE), workload, (), None, book())
    assert (found.values, found.warnings) == ({"chip_hours": 0.0, "cost_usd": 0.0}, ())
    assert found.metadata["cost.prices"]
    elsewhere = definition(efficiency={**HERE, "region": "nowhere"})
    unknown = measure_efficiency(elsewhere, workload, (), None, book())
    assert "has no price for" in unknown.missing["cost"]


def test_two_seconds_too_few_are_unknown() -> None:
    workload = replace(RUN, ended_at=START - timedelta(seconds=2))
    found = measure_efficiency(definition(efficiency=HERE), workload, (), None, book())
    assert "ended before it started" in found.missing["cost"]


@pytest.mark.parametrize(
    "bucket", sorted({*Bucket, "productive", "queue", "outside_log"} - {Bucket.DATA_LOADING_ASYNC})
)
def test_the_cost_of_every_bucket_has_a_unit_and_is_judged_by_name_only(bucket: str) -> None:
    kind = kind_of(cost_metric("USD", bucket))
    assert (kind.unit, kind.generated) == ("USD", True)
