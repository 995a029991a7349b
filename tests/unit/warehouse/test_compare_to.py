"""Judging with the runs of another deployment."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ml_metrics import TestDefinition
from ml_metrics.core.model import JobStatus, Metric, Outcome, Run, TagCurve, Verdict, Workload
from ml_metrics.measure import Collected
from ml_metrics.pipeline import RunState, steps
from ml_metrics.store.run_folder import RunFolder
from ml_metrics.warehouse import RunRecord, Warehouse, open_warehouse, run_record
from unit.warehouse.records import MONDAY

if TYPE_CHECKING:
    from pathlib import Path

    from ml_metrics.judge import Judgement

DEPLOYMENTS, TESTS = ("dev", "prod"), ("train", "nightly")
RULES = {
    "loss": {"comparison": "less", "success_threshold": {"stddevs_from_mean": 3}, "wait_for_n_points_of_history": 4},
    "rate": {"success_threshold": {"percent_difference": 10}, "baseline": {"same": ["param.epochs"]}},
    "loss_curve": {"curve": {"within": 4}},
}
RUNS = st.tuples(
    st.sampled_from(DEPLOYMENTS),
    st.sampled_from(TESTS),
    st.floats(0.9, 1.1) | st.sampled_from([1e-308, 1e308, -5.0, math.nan, math.inf]),
    st.sampled_from(list(JobStatus)) | st.just(JobStatus.SUCCESS),
    st.booleans(),
    st.sampled_from(["1", "2"]),
)


def definition(compare_to: Any) -> TestDefinition:
    rules = {name: {**rule, "compare_to": compare_to} for name, rule in RULES.items()}
    config = {"metric_success_conditions": rules}
    return TestDefinition(name="train", image="i", command=("c",), regression_test_config=config)


def record(number: int, row: tuple[Any, ...]) -> RunRecord:
    deployment, test, value, status, failed, epochs = row
    run = Run(test, test, f"r{number}", deployment)
    ended = MONDAY + timedelta(days=number)
    verdicts = [Verdict("loss", Outcome.FAIL if failed else Outcome.PASS, value, None, "rule")]
    return run_record(
        run,
        Workload(status, started_at=ended, ended_at=ended),
        [Metric(name, value, name, "final") for name in ("loss", "rate", "loss_curve")],
        verdicts,
        {"param.epochs": epochs},
        curves={"loss": TagCurve("loss", (1, 2, 3), (3.0, 2.0, 1.0))},
    )


def judged(place: Path, warehouse: Warehouse, compare_to: Any, deployment: str = "dev") -> Judgement:
    """Judge a run of a deployment."""
    run, folder = Run("train", "train", "now", deployment), RunFolder(str(place / "run"))
    ended = MONDAY + timedelta(days=100)
    folder.write_workload(Workload(JobStatus.SUCCESS, started_at=ended, ended_at=ended))
    metrics = tuple(Metric(name, 1.05, name, "final") for name in ("loss", "rate", "loss_curve"))
    curves = {"loss": TagCurve("loss", (1, 2, 3), (3.0, 2.0, 1.5))}
    folder.write("metrics", Collected(metrics, metadata={"param.epochs": "1"}, curves=curves).document())
    folder.write("run", {"params": {}})
    return steps.judge(definition(compare_to), run, RunState(folder), warehouse)


def opened(place: Path, name: str, deployment: str = "dev") -> Warehouse:
    return open_warehouse(f"sqlite:///{place}/{name}.db", deployment=deployment)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(RUNS, min_size=8, max_size=40), compared=st.sampled_from([None, *TESTS]))
def test_runs_of_a_deployment_are_judged_as_if_it_were_alone(
    tmp_path_factory: Any, rows: list[tuple[Any, ...]], compared: str | None
) -> None:
    place = tmp_path_factory.mktemp("alone")
    records = [record(number, row) for number, row in enumerate(rows)]
    with opened(place, "both") as both, opened(place, "alone") as alone:
        both.load_all(records)
        alone.load_all([each for each in records if each.job.deployment == "dev"])
        assert judged(place, both, compared) == judged(place, alone, compared)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(RUNS, min_size=8, max_size=40), test=st.sampled_from([None, *TESTS]), accepted=st.integers(0, 39))
def test_another_deployment_is_compared_with_as_if_its_runs_were_here(
    tmp_path_factory: Any, rows: list[tuple[Any, ...]], test: str | None, accepted: int
) -> None:
    """The same verdicts, but for their rules, come from a warehouse in which prod's runs are another test of dev."""
    place = tmp_path_factory.mktemp("there")
    there, here = [], []
    for number, row in enumerate(rows):
        there.append(record(number, row))
        if row[0] == "prod" and row[1] == (test or "train"):
            here.append(record(number, ("dev", "moved", *row[2:])))
    with opened(place, "two") as two, opened(place, "one") as one:
        two.load_all(there)
        one.load_all(here)
        for warehouse in (two.in_deployment("prod"), one):
            name = "moved" if warehouse is one else test or "train"
            runs = warehouse.runs.newest(name)
            if runs:
                of_test = sorted(runs, key=lambda run: run.timestamp)
                warehouse.acceptances.add(
                    of_test[accepted % len(of_test)].uuid, "loss", reason="r", by="b", at=MONDAY + timedelta(days=60)
                )
        other = {"deployment": "prod"} | ({"test": test} if test else {})
        found = judged(place, two, other).verdicts
        expected = judged(place, one, "moved").verdicts
    decided = [(one.metric, one.outcome, one.bounds, one.baseline_points, one.reference) for one in found]
    assert decided == [(one.metric, one.outcome, one.bounds, one.baseline_points, one.reference) for one in expected]
