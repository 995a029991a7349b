"""Metrics of the workload itself: literals and memory."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ml_metrics.config.collection import MetricCollectionConfig
from ml_metrics.config.loading import load_file
from ml_metrics.config.problems import InvalidFileError
from ml_metrics.core.model import JobStatus, Workload
from ml_metrics.measure import Collected, collect_run
from ml_metrics.store.run_folder import RunFolder
from unit.measure.collect.run_folders import collected, values

RAN = Workload(
    JobStatus.SUCCESS,
    queued_at=datetime(2026, 1, 1, 11, 59, tzinfo=UTC),
    started_at=datetime(2026, 1, 1, 12, tzinfo=UTC),
    ended_at=datetime(2026, 1, 1, 12, 10, tzinfo=UTC),
    attempts=2,
)


def of(workload: Workload | None, folder: Path, memory: Any = None, **config: Any) -> Collected:
    return collect_run(
        MetricCollectionConfig.model_validate(config), RunFolder(str(folder)), workload, memory_used=memory
    )


def test_literals_that_the_config_requires(tmp_path: Path) -> None:
    assert values(of(RAN, tmp_path)) == {"total_wall_time": 600}
    found = of(RAN, tmp_path, sources={"literals": ["duration", "attempts", "queue_time"]})
    assert values(found) == {"total_wall_time": 600, "duration": 600, "attempts": 2, "queue_time": 60}
    assert {metric.wall_time for metric in found.metrics} == {RAN.ended_at.timestamp() if RAN.ended_at else None}
    assert values(of(RAN, tmp_path, sources={"literals": {"tries": "attempts"}}))["tries"] == 2


def test_an_unknown_literal_is_missing_with_the_reason(tmp_path: Path) -> None:
    config = {"sources": {"literals": ["duration", "attempts"]}}
    never_ran = of(replace(RAN, started_at=None), tmp_path, **config)
    assert values(never_ran) == {"attempts": 2}
    assert never_ran.missing == {"duration": "the workload has not run yet"}
    assert set(of(None, tmp_path, **config).missing) == {"duration", "attempts"}


TIME = "time_to_accuracy: {accuracy_tag: acc, accuracy_threshold: 1}"


@pytest.mark.parametrize(
    ("config", "what"),
    [
        ("sources: {literals: {total_wall_time: duration}}", "is also computed for every run"),
        ("sources: {literals: {vm_memory_usage_bytes: attempts}}", "is also reported by `memory`"),
        (
            "metric_to_aggregation_strategy: {loss: [final]}\n  sources: {literals: {loss_final: attempts}}",
            "is also made from the tag 'loss'",
        ),
        (
            f"{TIME}\n  sources: {{literals: {{acc_final: attempts}}}}",
            "is also made from the tag 'acc'",
        ),
        (
            f"{TIME}\n  sources: {{literals: {{time_to_accuracy: duration}}}}",
            "is also computed",
        ),
        ("sources: {literals: [duration, duration]}", "contains duration twice"),
        ("sources: {literals: [durations]}", "did you mean 'duration'?"),
        ('sources: {literals: {"two\\nlines": duration}}', "cannot be part of the name of a metric"),
    ],
)
def test_a_metric_name_of_two_sources_is_a_config_error(tmp_path: Path, config: str, what: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(f"metric_collection_config:\n  {config}\n")
    with pytest.raises(InvalidFileError) as caught:
        load_file(path)
    assert what in str(caught.value)


def test_a_literal_may_have_the_name_of_memory_if_memory_is_off(tmp_path: Path) -> None:
    config = {"sources": {"memory": False, "literals": {"vm_memory_usage_bytes": "attempts"}}}
    assert values(of(replace(RAN, peak_memory_bytes=7), tmp_path, **config))["vm_memory_usage_bytes"] == 2


def test_memory_that_the_cluster_measured_is_used_without_a_query(tmp_path: Path) -> None:
    measured = replace(RAN, peak_memory_bytes=123)
    assert values(of(measured, tmp_path))["vm_memory_usage_bytes"] == 123

    def never_queried(_: Workload) -> dict[str, float]:
        raise AssertionError("queried")

    assert of(measured, tmp_path, never_queried).warnings == of(measured, tmp_path).warnings


def test_memory_is_otherwise_queried_from_the_monitoring_service(tmp_path: Path) -> None:
    found = of(RAN, tmp_path, lambda _: {"vm_memory_usage_bytes": 5e9, "gpu_memory_usage_bytes": 7e9})
    assert values(found)["vm_memory_usage_bytes"] == 5e9
    assert values(found)["gpu_memory_usage_bytes"] == 7e9


@pytest.mark.parametrize("seen", [{}, {"vm_memory_usage_bytes": 0.0}, {"gpu_memory_usage_bytes": float("nan")}])
def test_memory_without_a_measurement_is_absent(tmp_path: Path, seen: dict[str, float]) -> None:
    assert values(of(RAN, tmp_path, lambda _: seen)) == {"total_wall_time": 600}
    assert values(of(replace(RAN, peak_memory_bytes=0), tmp_path)) == {"total_wall_time": 600}


def test_a_monitoring_service_that_fails_does_not_affect_other_metrics(tmp_path: Path) -> None:
    def broken(_: Workload) -> dict[str, float]:
        raise ConnectionError("no route")

    found = of(RAN, tmp_path, broken, sources={"literals": ["duration"]})
    assert values(found) == {"total_wall_time": 600, "duration": 600}
    assert found.warnings[0] == "memory: could not be read: ConnectionError: no route"


def test_ignored_tags_apply_to_every_source_and_included_tags_not_to_computed_metrics(
    tmp_path: Path,
) -> None:
    measured = replace(RAN, peak_memory_bytes=123)
    assert set(values(of(measured, tmp_path, tags_to_ignore=["vm_*"]))) == {"total_wall_time"}
    assert "vm_memory_usage_bytes" in values(of(measured, tmp_path, include_tags=["eval/*"]))


def test_without_a_workload_there_are_no_workload_metrics(tmp_path: Path) -> None:
    assert values(collected(tmp_path)) == {}
