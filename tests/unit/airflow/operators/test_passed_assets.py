"""A run that passes is an event of its test's asset, and the release of docs/runs.md happens once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.definitions.asset import AssetAny
from airflow.sdk.execution_time.context import OutletEventAccessors

import ml_metrics
from ml_metrics import ConfigError, TestDefinition, accelerator_test, green_tests, passed_asset
from ml_metrics.airflow.assets import emit_passed, passed_alias
from ml_metrics.airflow.operators.run import folder_of
from ml_metrics.core.model import Bounds, JobStatus, Metric, Outcome, Run, Verdict, Workload
from ml_metrics.core.values import digest_in
from ml_metrics.judge import Judgement
from ml_metrics.pipeline import RunState
from ml_metrics.warehouse import RunRecord, open_warehouse, run_record

DIGESTS = tuple(f"sha256:{letter * 64}" for letter in "ab")
A, B = "resnet-v5e", "bert-v5e"
PAGE = Path(__file__).parents[4] / "docs" / "runs.md"
PASS = Verdict("loss", Outcome.PASS, 1.0, Bounds(upper=2.0), "less than 2")
NOW = datetime.now(UTC)


def emitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, judgement: Judgement, **start: Any) -> list[Any]:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__STORAGE_ROOT", str(tmp_path))
    context = {"dag_run": SimpleNamespace(dag_id=A, run_id="r"), "outlet_events": OutletEventAccessors()}
    folder = folder_of(A, context)
    folder.write("verdicts", judgement.document())
    folder.write("run", start)
    folder.write_workload(Workload(JobStatus.SUCCESS, image="i:1", image_digest=f"docker.io/i@{DIGESTS[0]}"))
    run = Run(A, A, "r", "local")
    events = []
    for _ in range(2):  # a cleared gate
        context["outlet_events"] = OutletEventAccessors()
        emit_passed(run, RunState(folder), context)
        events += context["outlet_events"][passed_alias(A)].asset_alias_events
    return events


def test_a_run_that_passes_emits_its_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, again = emitted(tmp_path, monkeypatch, Judgement((PASS,), (), passed=True))
    assert first == again
    assert (first.dest_asset_key.name, first.source_alias_name) == (passed_asset(A).name, passed_alias(A).name)
    assert first.extra == {"digest": DIGESTS[0], "image": "i:1", "run": Run(A, A, "r", "local").key, "run_id": "r"}


@pytest.mark.parametrize(
    ("judgement", "start"),
    [
        (Judgement((PASS,), (), passed=True), {"trial": ["image"]}),
        (Judgement((), (), passed=True, conditions=False), {}),
        (Judgement((Verdict("loss", Outcome.INSUFFICIENT_DATA, 1.0, Bounds(), ""),), (), passed=True), {}),
    ],
)
def test_trials_and_unjudged_runs_emit_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, judgement: Judgement, start: dict[str, Any]
) -> None:
    assert emitted(tmp_path, monkeypatch, judgement, **start) == []


def test_only_what_is_in_the_warehouse_has_an_asset() -> None:
    test = TestDefinition(name=A, image="i", command=("c",))
    gate = accelerator_test(test).get_task("assert_success")
    assert gate.outlets == [passed_alias(A)]
    config = test.metric_collection_config.model_copy(update={"write_to_bigquery": False})
    unrecorded = test.model_copy(update={"metric_collection_config": config})
    assert accelerator_test(unrecorded).get_task("assert_success").outlets == []


@pytest.mark.parametrize(
    ("image", "digest"),
    [
        (f"docker.io/library/python@{DIGESTS[0]}", DIGESTS[0]),
        (f"docker-pullable://python@{DIGESTS[0]}", DIGESTS[0]),
        (f"docker://{DIGESTS[0]}", DIGESTS[0]),
        (DIGESTS[0], DIGESTS[0]),
        ("", ""),
        ("python:3.11", ""),
        (f"python@{DIGESTS[0]}0", ""),
        (f"python@{DIGESTS[0]}\n", ""),
        (f"pythonsha256:{'a' * 64}", ""),
    ],
)
def test_the_digest_of_an_image(image: str, digest: str) -> None:
    assert digest_in(image) == digest


def ran(second: int, test: str, digest: str, outcome: Outcome = Outcome.PASS, **more: Any) -> RunRecord:
    """A run that ended so many seconds after the first one."""
    ended = NOW - timedelta(hours=1) + timedelta(seconds=second)
    verdict = Verdict("loss", outcome, 1.0, Bounds(upper=2.0), "less than 2")
    return run_record(
        Run(test, test, more.pop("run_id", f"scheduled__{second}"), "local"),
        Workload(more.pop("status", JobStatus.SUCCESS), started_at=ended, ended_at=ended),
        [Metric("loss", 1.0, "loss", "final")],
        [verdict],
        {"image_digest": f"docker.io/i@{digest}", **more.pop("metadata", {})},
        test_type="t", accelerator="cpu", framework_version="tf", owner="o", **more,
    )  # fmt: skip


@pytest.fixture
def record(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Record a run, and return the address of its warehouse."""
    address = f"sqlite:///{tmp_path}/green.db"
    with open_warehouse(address) as warehouse:

        def load(*run: Any, **more: Any) -> str:
            warehouse.load(ran(*run, **more))
            return address

        yield load


def test_a_test_is_green_by_its_newest_regular_run(record: Callable[..., str]) -> None:
    first, second = DIGESTS
    address = record(1, A, first)
    record(2, A, first)
    record(3, A, second, Outcome.FAIL)
    record(4, B, first, trial=("image",))
    record(5, B, first, run_id="import__1")
    record(6, "other", first)
    assert green_tests(first, (A, B), warehouse=address) == {A}
    assert green_tests(first, (A, B), days=10**9, warehouse=address) == {A}, "more days than the calendar has"
    assert green_tests(f"docker.io/i@{second}", (A, B), warehouse=address) == frozenset()
    record(7, B, first)
    assert green_tests(first, (A, B), warehouse=address) == {A, B}
    record(8, A, first, Outcome.FAIL)
    record(9, B, first, status=JobStatus.FAILURE)
    assert green_tests(first, (A, B), warehouse=address) == frozenset()
    with pytest.raises(ConfigError, match="64 hexadecimal digits"):
        green_tests("sha256:%", (A,), warehouse=address)


def test_a_test_is_not_green_by_a_run_that_its_gate_failed_for_another_reason_than_the_verdict(
    record: Callable[..., str],
) -> None:
    digest = DIGESTS[0]
    address = record(1, A, digest)
    record(2, A, digest, metadata={"failed_tasks": "measure_goodput"})
    assert green_tests(digest, (A,), warehouse=address) == frozenset()
    record(3, A, digest)
    assert green_tests(digest, (A,), warehouse=address) == {A}


def test_the_release_of_the_page_starts_once_for_each_digest_that_is_green(
    record: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = DIGESTS
    address = record(1, A, first)
    record(2, B, second)
    monkeypatch.setattr(ml_metrics, "green_tests", partial(green_tests, warehouse=address), raising=False)
    (block,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    namespace: dict[str, Any] = {}
    exec(compile(block, str(PAGE), "exec"), namespace)
    dag = namespace["dag"]
    assert isinstance(dag.timetable.asset_condition, AssetAny)
    assert list(dag.timetable.asset_condition.objects) == [passed_asset(A), passed_asset(B)]
    release = dag.get_task("release")
    assert release.partial_kwargs["skip_when_already_exists"]

    def releases(*digests: str) -> list[str]:
        events = {passed_asset(A): [SimpleNamespace(extra={"digest": digest}) for digest in digests]}
        found = dag.get_task("green_digests").python_callable(triggering_asset_events=events)
        return [one["trigger_run_id"] for one in found]

    assert releases(first, second, "") == []
    record(3, A, second)
    assert releases(second, second, first) == [f"release__{second}"]
