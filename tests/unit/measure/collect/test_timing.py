"""Total wall time and time to accuracy."""

from datetime import UTC, datetime
from pathlib import Path

from ml_metrics.core.model import JobStatus, Workload
from unit.measure.collect.run_folders import by_name, collected, write

ACCURACY = {"accuracy_tag": "acc", "accuracy_threshold": 0.5}


def workload(queued: float, started: float | None, ended: float | None) -> Workload:
    times = [None if one is None else datetime.fromtimestamp(one, UTC) for one in (queued, started, ended)]
    return Workload(JobStatus.SUCCESS, queued_at=times[0], started_at=times[1], ended_at=times[2])


def test_wall_time_is_that_of_the_container_without_queueing(tmp_path: Path) -> None:
    write(tmp_path, loss=[1])
    metric = by_name(collected(tmp_path, workload(100, 900, 1500)))["total_wall_time"]
    assert (metric.value, metric.wall_time) == (600, 1500)


def test_the_workload_may_record_its_own_start(tmp_path: Path) -> None:
    write(tmp_path, TensorboardStartTimestamp=[900, 1000])
    assert by_name(collected(tmp_path, workload(100, 200, 1500)))["total_wall_time"].value == 500


def test_no_wall_time_if_start_or_end_is_unknown(tmp_path: Path) -> None:
    write(tmp_path, loss=[1])
    for known in (None, workload(1, None, None), workload(1, 2, None)):
        assert "total_wall_time" not in by_name(collected(tmp_path, known))


def test_the_first_point_that_reached_the_threshold_counts(tmp_path: Path) -> None:
    write(tmp_path, acc=[0.1, 0.5, 0.2, 0.9])
    metric = by_name(collected(tmp_path, workload(1, 990, 2000), time_to_accuracy=ACCURACY))["time_to_accuracy"]
    assert (metric.value, metric.step, metric.wall_time) == (11, 1, 1001)


def test_a_threshold_that_was_never_reached_is_reported_with_the_best_value(tmp_path: Path) -> None:
    write(tmp_path, acc=[0.1, 0.4, float("nan"), 0.2])
    found = collected(tmp_path, workload(1, 990, 2000), time_to_accuracy=ACCURACY)
    assert "time_to_accuracy" not in by_name(found)
    assert found.missing == {"time_to_accuracy": "acc never reached 0.5: the best value was 0.4, at step 1"}
    assert found.document()["missing"] == found.missing
    assert "acc_final" in by_name(found)


def test_infinity_does_not_reach_the_threshold(tmp_path: Path) -> None:
    write(tmp_path, acc=[0.1, float("inf")])
    assert collected(tmp_path, workload(1, 990, 2000), time_to_accuracy=ACCURACY).missing


def test_an_absent_accuracy_tag_is_reported(tmp_path: Path) -> None:
    write(tmp_path, accu=[1])
    missing = collected(tmp_path, time_to_accuracy=ACCURACY).missing
    assert missing == {"time_to_accuracy": "there is no tag 'acc'; did you mean 'accu'?"}


def test_an_ignored_tag_still_counts_for_time_to_accuracy(tmp_path: Path) -> None:
    write(tmp_path, acc=[0.1, 0.6])
    found = collected(tmp_path, workload(1, 990, 2000), time_to_accuracy=ACCURACY, tags_to_ignore=["acc"])
    assert set(by_name(found)) == {"total_wall_time", "time_to_accuracy"}


def test_without_a_workload_the_first_point_is_the_start_with_a_warning(tmp_path: Path) -> None:
    write(tmp_path, acc=[0.1, 0.2, 0.6])
    found = collected(tmp_path, time_to_accuracy=ACCURACY)
    assert by_name(found)["time_to_accuracy"].value == 2
    assert "from the first point" in found.warnings[0]


def test_a_start_after_the_end_is_a_warning_without_a_wall_time(tmp_path: Path) -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    found = collected(
        tmp_path, Workload(JobStatus.SUCCESS, started_at=noon, ended_at=datetime(2026, 1, 1, 11, tzinfo=UTC))
    )
    assert "total_wall_time" not in by_name(found)
    assert "total_wall_time is unknown: the recorded start is 3600 s after the end" in found.warnings
