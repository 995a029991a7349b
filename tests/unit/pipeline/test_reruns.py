"""Which suspicious runs are run again, and what their verdicts say about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ml_metrics import TestDefinition
from ml_metrics.config.definition import Quarantine
from ml_metrics.core.model import JobStatus, Metric, Run, Workload
from ml_metrics.judge import Judgement
from ml_metrics.measure import Collected
from ml_metrics.pipeline import RunState, steps
from ml_metrics.store.documents import Documents
from ml_metrics.store.run_folder import RunFolder
from ml_metrics.warehouse import RunRecord, Warehouse, open_warehouse, run_record

NOW = datetime.now(UTC).replace(microsecond=0)
TEST = TestDefinition.model_validate({
    "name": "t", "image": "i", "command": ["c"],
    "regression_test_config": {"metric_success_conditions": {"time": {"comparison": "less"}}, "rerun": True},
})  # fmt: skip
SPENT = "not run again: the budget of reruns is spent"


@pytest.fixture(autouse=True)
def _storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__STORAGE_ROOT", str(tmp_path))


def record(test: str, run_id: str, ended: datetime, value: float) -> RunRecord:
    metrics = (Metric("time", value, "time", "final"),)
    workload = Workload(JobStatus.SUCCESS, ended_at=ended)
    names = dict.fromkeys(("test_type", "accelerator", "framework_version"), "")
    return run_record(Run(test, test, run_id, "local"), workload, metrics, (), {}, **names)


@pytest.fixture
def warehouse(tmp_path: Path) -> Iterator[Warehouse]:
    """Thirty nights of each of two tests."""
    values = list(enumerate(100 + np.random.default_rng(7).normal(size=30)))
    with open_warehouse(f"sqlite:///{tmp_path}/w.db") as opened:
        nights = [(f"scheduled__{night}", NOW - timedelta(days=31 - night), float(value)) for night, value in values]
        opened.load_all([record(test, *each) for test in ("t", "u") for each in nights])
        yield opened


def judge(
    warehouse: Warehouse,
    run_id: str,
    value: float = 108.0,
    *,
    test: TestDefinition = TEST,
    trial: tuple[str, ...] = (),
    ended: datetime = NOW,
) -> Judgement:
    """Judge and load a run."""
    run = Run(test.name, test.name, run_id, "local")
    folder = RunFolder.of(run, str(Path(warehouse.address.removeprefix("sqlite:///")).parent))
    folder.write_workload(Workload(JobStatus.SUCCESS, ended_at=ended))
    folder.write("metrics", Collected((Metric("time", value, "time", "final"),)).document())
    if trial:
        folder.write("run", {"trial": list(trial)})
    judgement = steps.judge(test, run, RunState(folder), warehouse)
    steps.load(test, run, RunState(folder), warehouse)
    return judgement


def reason(judgement: Judgement) -> str:
    return judgement.verdicts[0].reason


def following(run_id: str, judgement: Judgement, warehouse: Warehouse, test: TestDefinition = TEST) -> str | None:
    run = Run(test.name, test.name, run_id, "local")
    folder = RunFolder.of(run, str(Path(warehouse.address.removeprefix("sqlite:///")).parent))
    confirming = steps.confirm(test, run, RunState(folder))
    assert bool(confirming) == bool(judgement.unconfirmed)
    return confirming.run_id if confirming else None


def test_a_suspicious_run_is_run_again_twice_and_a_rerun_is_not(warehouse: Warehouse) -> None:
    run_id: str | None = "scheduled__30"
    seen = []
    for hours in range(4):
        if run_id is None:
            break
        judgement = judge(warehouse, run_id, 108 + hours / 10, ended=NOW + timedelta(hours=hours))
        seen.append((run_id, judgement.passed))
        run_id = following(run_id, judgement, warehouse)
    assert seen == [
        ("scheduled__30", True),
        ("confirm__scheduled__30__1", True),
        ("confirm__scheduled__30__2", False),
    ]


def test_the_reason_says_that_a_run_is_run_again(warehouse: Warehouse) -> None:
    assert reason(judge(warehouse, "a")).endswith("deviations worse: run again as run 2 of 3 of this night")


def test_a_task_that_is_tried_again_claims_one_rerun(warehouse: Warehouse) -> None:
    for _ in range(5):
        assert judge(warehouse, "a").unconfirmed
    root = Path(warehouse.address.removeprefix("sqlite:///")).parent
    assert len(Documents.of_deployment(str(root), "reruns", "local").names()) == 2


def test_two_reruns_are_always_allowed_and_then_the_budget_is_spent(warehouse: Warehouse) -> None:
    other = TEST.model_copy(update={"name": "u"})
    assert judge(warehouse, "a").unconfirmed
    refused = judge(warehouse, "a", test=other)
    assert refused.unconfirmed == ()
    assert reason(refused).endswith(SPENT)
    assert following("a", refused, warehouse, other) is None
    assert judge(warehouse, "a").unconfirmed, "a claim stays"
    assert judge(warehouse, "confirm__a__1", ended=NOW + timedelta(minutes=1)).unconfirmed, "both are claimed"


def test_the_budget_is_a_share_of_the_runs_of_a_day(warehouse: Warehouse) -> None:
    warehouse.load_all([record("v", str(number), NOW, 1.0) for number in range(30)])
    claims = Documents.of_deployment(str(Path(warehouse.address.removeprefix("sqlite:///")).parent), "reruns", "local")
    for number in range(2):
        claims.write(f"{int(NOW.timestamp()):011}-other-{number}", {})
    assert reason(judge(warehouse, "a")).endswith(SPENT)
    twenty = TEST.regression_test_config.model_copy(
        update={"rerun": TEST.regression_test_config.rerun.model_copy(update={"at_most": 20})}  # type: ignore[union-attr]
    )
    assert judge(warehouse, "a", test=TEST.model_copy(update={"regression_test_config": twenty})).unconfirmed


def test_a_good_rerun_gives_the_second_one_back(warehouse: Warehouse, tmp_path: Path) -> None:
    claims = Documents.of_deployment(str(tmp_path), "reruns", "local")
    assert judge(warehouse, "a").unconfirmed
    assert len(claims.names()) == 2
    assert not judge(warehouse, "confirm__a__1", 100, ended=NOW + timedelta(minutes=1)).unconfirmed
    assert len(claims.names()) == 1


def test_claims_of_earlier_nights_are_removed(warehouse: Warehouse) -> None:
    claims = Documents.of_deployment(str(Path(warehouse.address.removeprefix("sqlite:///")).parent), "reruns", "local")
    for number in range(5):
        claims.write(f"{int((NOW - timedelta(days=1, minutes=5)).timestamp()):011}-other-{number}", {})
    assert judge(warehouse, "a").unconfirmed
    assert len(claims.names()) == 2


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"run_id": "backfill__2026-01-01"}, "it is a run of a backfill"),
        ({"ended": NOW - timedelta(hours=25)}, "it ended more than a day ago"),
        (
            {"test": TEST.model_copy(update={"quarantine": Quarantine(until=NOW.date() + timedelta(2), reason="r")})},
            "the test is quarantined",
        ),
    ],
)
def test_what_is_not_run_again_says_why(warehouse: Warehouse, more: dict[str, Any], why: str) -> None:
    judgement = judge(warehouse, **{"run_id": "a", **more})
    assert judgement.unconfirmed == ()
    assert reason(judgement).endswith(f"not run again: {why}")


def test_a_trial_is_not_run_again(warehouse: Warehouse) -> None:
    judgement = judge(warehouse, "a", trial=("image",))
    run = Run("t", "t", "a", "local")
    folder = RunFolder.of(run, str(Path(warehouse.address.removeprefix("sqlite:///")).parent))
    assert steps.confirm(TEST, run, RunState(folder)) is None
    assert "run again" not in reason(judgement)


def test_the_policy_can_forbid_it(warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "policy.yaml").write_text("reruns: false\n")
    monkeypatch.setenv("AIRFLOW__ML_METRICS__POLICY", str(tmp_path / "policy.yaml"))
    assert reason(judge(warehouse, "a")).endswith("not run again: the policy does not allow it")


def test_a_test_without_the_key_is_judged_as_before(warehouse: Warehouse) -> None:
    plain = TEST.model_copy(
        update={"regression_test_config": TEST.regression_test_config.model_copy(update={"rerun": None})}
    )
    judgement = judge(warehouse, "a", test=plain)
    assert judgement.passed
    assert not judgement.unconfirmed
    assert "run again" not in reason(judgement)
    assert replace(judgement, verdicts=()).alerts == ()
