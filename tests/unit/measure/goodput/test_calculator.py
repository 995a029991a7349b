from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from ml_goodput_measurement.src import goodput as older

from ml_metrics.measure.goodput import BadputType, GoodputCalculator, GoodputType, NoGoodputError
from ml_metrics_telemetry import GoodputRecorder
from unit.measure.goodput import older_library
from unit.measure.goodput.traces import JOB, custom, entry, in_time, job_end, job_start, save, span, steps

if TYPE_CHECKING:
    from pathlib import Path

PLAIN = [*job_start(0), *steps(0, 4, 10), *in_time([*custom("eval", 52, 55), *steps(5, 9, 63)]), *job_end(113)]


def calculator_of(entries: list[dict[str, Any]], **options: Any) -> GoodputCalculator:
    return GoodputCalculator(JOB, "log", older_library.MemoryLogger(entries), **options)


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def test_results_equal_those_of_the_older_library() -> None:
    with older_library.calculator(PLAIN, 200) as theirs:
        goodput, breakdown, step = theirs.get_job_goodput(include_badput_breakdown=True)
        details = theirs.get_job_goodput_details()
        deviation = theirs.get_step_deviation()
    ours = calculator_of(PLAIN)
    for found in (
        ours.get_job_goodput(include_badput_breakdown=True),
        calculator_of(PLAIN, compatible=True).get_job_goodput(True),
    ):
        assert (found[0], found[2]) == (pytest.approx(goodput), step)
        assert {kind.name: value for kind, value in found[1].items()} == {
            kind.name: pytest.approx(value) for kind, value in breakdown.items()
        }
    found = ours.get_job_goodput_details()
    assert found["goodput_time"][GoodputType.TOTAL] == details["goodput_time"][older.GoodputType.TOTAL]
    assert found["badput_time"][BadputType.CUSTOM_BADPUT_EVENTS] == {"EVAL": 3}
    same = ("max_productive_step", "total_elapsed_time", "disruption_count", "ideal_step_time", "total_excluded_time")
    assert {name: found[name] for name in same} == {name: pytest.approx(details[name]) for name in same}
    assert ours.get_step_deviation() == pytest.approx(deviation)
    assert ours.get_job_goodput()[1] == {}


def test_compatible_results_include_the_faults() -> None:
    entries = [*job_start(0), *steps(0, 10, 0), *job_start(3700), *steps(11, 20, 3710), *job_end(3810)]
    compatible = calculator_of(entries, compatible=True)
    assert compatible.get_job_goodput()[0] == 100
    details = compatible.get_job_goodput_details()
    assert (details["goodput_time"], details["total_elapsed_time"]) == ({GoodputType.TOTAL: 3810}, 3810)
    assert compatible.get_interval_metric_details(at(0), at(3805))["interval_goodput"][GoodputType.TOTAL] > 99
    assert calculator_of(entries).get_job_goodput()[0] == pytest.approx(210 / 3810 * 100)


def test_a_running_job_lasts_until_now() -> None:
    now = time.time()
    entries = [*job_start(now - 100), *steps(0, 4, now - 100)]
    assert calculator_of(entries).get_job_goodput()[0] == pytest.approx(40, abs=0.5)
    assert calculator_of(entries).get_job_goodput_details()["total_elapsed_time"] == pytest.approx(100, abs=1)


def test_a_window_is_a_part_of_the_whole() -> None:
    entries = [*job_start(0), *steps(0, 10, 0), *job_start(200), *steps(6, 20, 210), *job_end(360)]
    goodput, breakdown, step, total, disruptions = calculator_of(entries).get_job_goodput_interval(at(85), at(215))
    assert (total, disruptions, step) == (130, 1, 5)
    assert breakdown[BadputType.WASTED_PROGRESS_FROM_DISRUPTION] == pytest.approx(15 / 130 * 100)
    assert breakdown[BadputType.INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION] == pytest.approx(100 / 130 * 100)
    assert goodput == pytest.approx(5 / 130 * 100)
    windows = [(0, 85), (85, 215), (215, 1000)]
    parts = [calculator_of(entries).get_job_goodput_interval(at(low), at(high)) for low, high in windows]
    whole = calculator_of(entries).get_job_goodput()[0] * 360
    assert sum(part[0] * part[3] for part in parts) == pytest.approx(whole)


def test_a_window_outside_the_job_is_an_error_or_empty() -> None:
    with pytest.raises(NoGoodputError, match="did not run"):
        calculator_of(PLAIN).get_job_goodput_interval(at(500), at(600))
    details = calculator_of(PLAIN).get_interval_metric_details(at(500), at(600))
    assert details == {"interval_goodput": {}, "interval_badput": {}, "interval_size": 100}
    inside = calculator_of(PLAIN).get_interval_metric_details(at(0), at(60))
    assert inside["interval_goodput"][GoodputType.TOTAL] == pytest.approx(47 / 60 * 100)


def test_intervals_can_be_excluded() -> None:
    calculator = calculator_of(PLAIN)
    intervals = [(at(52), at(55)), (at(50), at(53)), (at(-50), at(5)), (at(109), at(500))]
    goodput, breakdown, step, excluded = calculator.get_job_goodput_with_exclusions(intervals, True)
    assert excluded == pytest.approx(5 + 5 + 4)
    assert goodput == pytest.approx((100 - 2 - 4) / 99 * 100)
    assert breakdown[BadputType.CUSTOM_BADPUT_EVENTS] == {}
    assert step == 9
    assert calculator.get_job_goodput_with_exclusions([])[0] == pytest.approx(calculator.get_job_goodput()[0])
    assert calculator.get_job_goodput_with_exclusions([(at(-1), at(999))])[0] == 0


def test_an_exclusion_may_have_any_zone() -> None:
    zone = timezone(timedelta(hours=2))
    interval = (at(52).astimezone(zone), at(55).astimezone(zone))
    assert calculator_of(PLAIN).get_job_goodput_with_exclusions([interval])[3] == 3
    with older_library.calculator(PLAIN, 200) as theirs:
        assert theirs.get_job_goodput_with_exclusions([interval])[3] == 0


def test_elastic_time_has_its_own_buckets() -> None:
    kind = {"elastic_wait_event_type": "scale_up"}
    counts = [
        entry("elastic_slice_counts_timestamp", moment, active_slices=active, total_slices=4, available_slices=4)
        for moment, active in ((0, 4), (50, 2))
    ]
    waiting = [entry("elastic_wait_start_time", 52, **kind), entry("elastic_wait_end_time", 60, **kind)]
    entries = in_time(
        [
            *(*job_start(0), *counts, *steps(0, 5, 0), *waiting, *span("elastic_reinit", 60, 70)),
            *(*span("tpu_init", 62, 68), *steps(6, 8, 80), *job_end(110)),
        ]
    )
    found = calculator_of(entries).get_job_goodput_details()
    assert found["badput_time"][BadputType.ELASTIC_SCALE_UP] == 8
    assert found["badput_time"][BadputType.ELASTIC_REINITIALIZATION] == 10
    assert found["badput_time"][BadputType.TPU_INITIALIZATION] == 0
    assert found["goodput_time"][GoodputType.TOTAL] == 110 - 18
    assert found["stepping_slice_efficiency"] == pytest.approx((50 + 60 * 0.5) / 110)
    assert found["available_slice_efficiency"] == 1


def test_an_empty_log_is_a_value_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="ML_METRICS_RUN_DIR"):
        GoodputCalculator(JOB)
    with pytest.raises(NoGoodputError):
        GoodputCalculator(JOB, folder=tmp_path).get_job_goodput()
    with pytest.raises(NoGoodputError, match="no completed step"):
        calculator_of([*job_start(0), *job_end(5)]).get_step_deviation()


def test_logs_of_both_recorders_have_the_same_figures(tmp_path: Path) -> None:
    theirs = older_library.MemoryLogger()
    recorders: list[Any] = [
        older.GoodputRecorder(JOB, "log", True, theirs),
        GoodputRecorder(JOB, "log", True, folder=tmp_path),
    ]
    for recorder in recorders:
        recorder.record_job_start_time(at(0))
        recorder.record_tpu_init_start_time(at(1))
        recorder.record_tpu_init_end_time(at(4))
        recorder.record_training_preparation_start_time(at(4))
        recorder.record_training_preparation_end_time(at(8))
        recorder.record_data_loading_start_time(at(8))
        recorder.record_data_loading_end_time(at(9))
        for step in range(10):
            recorder.record_step_start_time(step, at(10 + 5 * step))
        recorder.record_custom_badput_event_start_time(at(56), "eval")
        recorder.record_custom_badput_event_end_time(at(57), "eval")
        recorder.record_step_start_time(10, at(60))
        recorder.record_job_end_time(at(65))
        recorder.flush()
    ours = GoodputCalculator(JOB, folder=tmp_path).entries()
    assert ours.time.tolist() == calculator_of(theirs.entries).entries().time.tolist()
    with older_library.calculator(theirs.entries, 100) as one:
        expected = one.get_job_goodput(include_badput_breakdown=True)
    log = [dict(line) for line in _lines(tmp_path)]
    with older_library.calculator(log, 100) as one:
        assert one.get_job_goodput(include_badput_breakdown=True) == expected
    found = GoodputCalculator(JOB, folder=tmp_path).get_job_goodput(include_badput_breakdown=True)
    assert found[0] == pytest.approx(expected[0])
    assert {kind.name: value for kind, value in found[1].items()} == {
        kind.name: pytest.approx(value) for kind, value in expected[1].items()
    }


def _lines(folder: Path) -> list[dict[str, Any]]:
    import json

    return [json.loads(line) for line in (folder / "goodput.jsonl").read_text().splitlines()]


def test_a_second_query_includes_new_entries(tmp_path: Path) -> None:
    recorder = GoodputRecorder(JOB, "log", True, folder=tmp_path)
    recorder.record_job_start_time(at(0))
    calculator = GoodputCalculator(JOB, folder=tmp_path)
    for step in range(3):
        recorder.record_step_start_time(step, at(10 * step))
        recorder.flush()
        assert calculator.report(steps=False).last_step == step
    recorder.log_entry(save(1, 12.0, 2.0)[0])
    recorder.record_job_end_time(at(30))
    assert calculator.get_job_goodput()[0] == pytest.approx(28 / 30 * 100)
