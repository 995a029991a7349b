"""PerfZero summaries as its tool writes them, and invalid ones."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from unit.measure.collect.run_folders import by_name, collected, values, write

SUMMARY: dict[str, Any] = {
    "ml_framework_info": {"version": "2.3.0", "name": "tensorflow", "build_version": "v2.3.0-rc2-23-gb36436b087"},
    "execution_timestamp": 1550040322.8991697,
    "execution_id": "2019-02-13-06-45-22-899128",
    "benchmark_info": {
        "output_url": "gs://results/2019-02-13-06-45-22-899128/",
        "has_exception": False,
        "site_package_info": {"models": {"branch": "master", "hash": "f788046c"}},
        "harness_name": "perfzero",
    },
    "setup_info": {},
    "system_info": {
        "accelerator_count": 2,
        "physical_cpu_count": 8,
        "accelerator_model": "Tesla V100-SXM2-16GB",
        "accelerator_driver_version": "410.48",
    },
    "process_info": {"max_rss": 4269047808, "max_vms": 39894450176, "max_cpu_percent": 771.1},
    "benchmark_result": {
        "metrics": [
            {"name": "accuracy_top_5", "value": 0.7558000087738037},
            {"name": "accuracy_top_1", "value": 0.2639999985694885, "min_value": 0.2, "max_value": 0.3},
        ],
        "name": "official.resnet.estimator_cifar_benchmark.EstimatorCifar10BenchmarkTests.unit_test",
        "succeeded": True,
        "wall_time": 14.552583694458008,
    },
}


def summary(folder: Path, **changes: Any) -> None:
    """Write a summary; `benchmark_result__wall_time=3` changes what is deeper."""
    content = copy.deepcopy(SUMMARY)
    for where, value in changes.items():
        *parents, name = where.split("__")
        part = content
        for parent in parents:
            part = part[parent]
        part[name] = value
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "perfzero_summary.json").write_text(json.dumps(content))


def test_a_summary_in_the_older_naming(tmp_path: Path) -> None:
    summary(tmp_path / SUMMARY["execution_id"])
    found = collected(tmp_path)
    assert values(found) == {
        "accuracy_top_5": 0.7558000087738037,
        "accuracy_top_1": 0.2639999985694885,
        "max_rss": 4269047808,
        "max_vms": 39894450176,
        "max_cpu_percent": 771.1,
        "total_wall_time": 14.552583694458008,
    }
    assert {metric.wall_time for metric in found.metrics} == {1550040322.8991697}
    assert (found.warnings, found.files) == ((), 1)
    assert found.metadata["perfzero/system_info.accelerator_model"] == "Tesla V100-SXM2-16GB"
    assert found.metadata["perfzero/benchmark_result.succeeded"] == "true"


def test_a_summary_in_the_newer_naming(tmp_path: Path) -> None:
    summary(tmp_path / "output")
    found = values(collected(tmp_path, sources={"perfzero": {"process_info": "prefixed", "prefix": "bench/"}}))
    assert set(found) == {
        "bench/accuracy_top_5", "bench/accuracy_top_1", "bench/process_info/max_rss", "bench/process_info/max_vms",
        "bench/process_info/max_cpu_percent", "bench/total_wall_time",
    }  # fmt: skip


def test_the_later_execution_of_a_benchmark_counts(tmp_path: Path) -> None:
    summary(tmp_path / "a", execution_timestamp=2000.0, benchmark_result__wall_time=2)
    summary(tmp_path / "b", execution_timestamp=1000.0, benchmark_result__wall_time=1)
    found = collected(tmp_path)
    assert values(found)["total_wall_time"] == 2
    assert found.warnings == (
        "a/perfzero_summary.json and b/perfzero_summary.json are of the same benchmark; the later execution counts",
    )


def test_several_benchmarks_are_distinguished_by_name(tmp_path: Path) -> None:
    summary(tmp_path / "a", benchmark_result__name="Tests.small", benchmark_result__wall_time=1)
    summary(tmp_path / "b", benchmark_result__name="Tests.large", benchmark_result__wall_time=2)
    found = values(collected(tmp_path))
    assert (found["Tests.small/total_wall_time"], found["Tests.large/total_wall_time"]) == (1, 2)


def test_a_benchmark_that_reported_no_wall_time_has_none(tmp_path: Path) -> None:
    summary(tmp_path, benchmark_result__wall_time=-1)
    found = collected(tmp_path)
    assert "total_wall_time" not in values(found)
    assert "reported no wall time" in found.warnings[0]


def test_a_value_that_is_not_a_number_is_left_out(tmp_path: Path) -> None:
    summary(
        tmp_path,
        benchmark_result__metrics=[
            {"name": "good", "value": 1},
            {"name": "text", "value": "fast"},
            {"value": 3},
            "accuracy",
            {"name": "flag", "value": True},
        ],
        process_info={"max_rss": 5, "command": "python"},
    )
    found = collected(tmp_path)
    assert set(values(found)) == {"good", "flag", "max_rss", "total_wall_time"}
    assert len(found.warnings) == 4


BROKEN: dict[str, bytes] = {
    "cut": json.dumps(SUMMARY).encode()[:200],
    "a list": b"[]",
    "another tool's": b'{"benchmark": {"metrics": []}}',
    "no object": b'{"benchmark_result": 7}',
    "empty": b"",
    "no text": b"\xff\xfe\x00",
    "very deep": b'{"a":' * 50_000,
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_an_invalid_file_is_a_warning_and_does_not_affect_other_sources(tmp_path: Path, content: bytes) -> None:
    write(tmp_path, loss=[1])
    (tmp_path / "perfzero_summary.json").write_bytes(content)
    found = collected(tmp_path)
    assert set(by_name(found)) == {"loss_final"}
    assert len(found.warnings) == 1
    assert found.warnings[0].startswith("perfzero_summary.json: not read: is n")


@pytest.mark.parametrize("odd", [None, {}, [], 7, "text"])
@pytest.mark.parametrize("part", ["process_info", "benchmark_result__metrics", "system_info", "execution_timestamp"])
def test_an_invalid_part_does_not_affect_the_other_parts(tmp_path: Path, part: str, odd: Any) -> None:
    summary(tmp_path, **{part: odd})
    found = values(collected(tmp_path))
    assert found["total_wall_time"] == SUMMARY["benchmark_result"]["wall_time"]
    assert "accuracy_top_5" in found or part == "benchmark_result__metrics"
