from __future__ import annotations

from pathlib import Path

from ml_metrics.config.definition import TestDefinition
from ml_metrics.config.load import load_file
from ml_metrics.reports.warnings import warnings_of
from ml_metrics.run_state import RunState
from simulated_runs import TEST, good, simulate, with_test


def warnings_about(test: TestDefinition) -> list[str]:
    folder = simulate(1, with_test(good(), **test.model_dump(exclude_unset=True)))
    return list(warnings_of(test, RunState(folder)))


def test_a_normal_run_has_no_warnings() -> None:
    assert warnings_about(TEST) == []


def test_a_subset_with_a_metric_without_condition_is_a_warning() -> None:
    config = TEST.regression_test_config.model_dump() | {"metric_subset_to_alert": ["step_time_final"]}
    test = TestDefinition.model_validate({**TEST.model_dump(exclude_unset=True), "regression_test_config": config})
    assert warnings_about(test) == [
        "step_time_final: metric_subset_to_alert names it, but no condition covers it: it can never alert"
    ]


def test_warnings_of_the_test_file_are_included_if_it_still_exists(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(
        "name: tf-mnist-example-cpu\nimage: i\ncommand: [c]\nmetric_collection_config: {write_to_bigquery: 'True'}\n"
    )
    (test,) = load_file(path).tests
    warnings = warnings_about(test)
    assert len(warnings) == 1
    assert "write_to_bigquery" in warnings[0]
    path.write_text("name: [")
    assert warnings_about(test) == []
    path.unlink()
    assert warnings_about(test) == []
