"""The older library's faults in windows of time, and in a second query."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from typing import Any

import pytest
from ml_goodput_measurement.src import goodput as older

from unit.measure.goodput import older_library
from unit.measure.goodput.measuring import all_time, measured
from unit.measure.goodput.traces import JOB, entry, in_time, job_end, job_start, save, span, steps

NOW = 5000.0


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def their_window(entries: list[dict[str, Any]], low: float, high: float) -> tuple[float, dict[str, Any], float]:
    with older_library.calculator(entries, NOW) as one:
        goodput, badput, _, total, _ = one.get_job_goodput_interval(at(low), at(high))
    return goodput, {kind.name.lower(): value for kind, value in badput.items()}, total


def test_a_save_without_a_first_time_does_not_break_a_window() -> None:
    entries = [*job_start(0), *steps(0, 4, 0), *save(4, None, 2.0), *steps(5, 9, 50), *job_end(100)]
    with pytest.raises(TypeError):
        their_window(entries, -1, 100)
    found = measured(entries, start=-1, end=100)
    assert (found.productive_seconds, found.badput_seconds["unproductive_checkpoint_save_time"]) == (98, 2)


def test_a_window_that_starts_in_lost_steps_includes_the_recovery() -> None:
    entries = [*job_start(0), *steps(0, 10, 0), *job_start(200), *steps(6, 20, 210), *job_end(360)]
    _, badput, total = their_window(entries, 75, 260)
    assert badput["infrastructure_recovery_from_disruption"] == 0
    assert badput["other"] > 40
    found = measured(entries, start=75, end=260)
    assert found.badput_seconds["infrastructure_recovery_from_disruption"] == 100
    assert found.badput_seconds["wasted_progress_from_disruption"] == 25
    assert found.badput_seconds["other"] == 10
    assert total < found.total_seconds == 185


def test_a_window_that_cuts_a_span_includes_its_part() -> None:
    entries = [*job_start(0), *span("tpu_init", 0, 40), *steps(0, 5, 40), *job_end(100)]
    _, badput, _ = their_window(entries, 20, 100)
    assert badput["tpu_initialization"] == 0
    assert measured(entries, start=20, end=100).badput_seconds["tpu_initialization"] == 20


def test_a_window_has_the_requested_length() -> None:
    entries = [*job_start(0), *steps(0, 9, 0), *job_end(100)]
    assert their_window(entries, 15, 45)[2] == 20
    assert measured(entries, start=15, end=45).total_seconds == 30


def test_right_after_a_restart_the_last_productive_step_is_the_one_before_it() -> None:
    entries = [*job_start(0), *steps(0, 10, 0), *job_start(200), *steps(6, 6, 210)]
    assert older_library.figures_of(entries, 220.0).max_step == 0
    assert measured(entries, until=220.0).max_productive_step == 5


def test_a_second_calculator_reads_the_log(tmp_path: Any) -> None:
    logger = older_library.MemoryLogger([*job_start(0), *steps(0, 9, 0)])
    first = older.GoodputCalculator(JOB, "log", logger, cache_dir=str(tmp_path))
    assert first.get_job_goodput()[2] == 8
    logger.entries = [*job_start(0), *steps(0, 999, 0), *job_end(10_000)]
    second = older.GoodputCalculator(JOB, "log", _Delta(logger.entries), cache_dir=str(tmp_path))
    assert second.get_job_goodput()[2] == 8
    assert measured(logger.entries).max_productive_step == 999


class _Delta(older_library.MemoryLogger):
    """As Cloud Logging: nothing is behind the last entry of a cache that knows a later time."""

    def read_cloud_logging_entries(
        self, start_time: Any = None, end_time: Any = None, last_entry_info: Any = None
    ) -> tuple[list[dict[str, Any]], tuple[datetime, str]]:
        found, info = super().read_cloud_logging_entries(start_time, end_time)
        return ([] if last_entry_info else found), info


def test_waiting_for_slices_within_a_step_is_not_productive() -> None:
    from ml_goodput_measurement.src.goodput_elastic import ElasticGoodputCalculator

    kind = {"elastic_wait_event_type": "scale_up"}
    waiting = [entry("elastic_wait_start_time", 12, **kind), entry("elastic_wait_end_time", 18, **kind)]
    entries = in_time([*job_start(0), *steps(0, 3, 0), *waiting, *job_end(40)])
    with older_library.calculator(entries, NOW) as plain:
        elastic = ElasticGoodputCalculator(JOB, "log", plain._cloud_logger, cache_dir=tempfile.mkdtemp())
        goodput, badput, _ = elastic.get_job_goodput(include_badput_breakdown=True)
    assert goodput + badput[older.BadputType.ELASTIC_SCALE_UP] > 100
    found = measured(entries)
    assert found.badput_seconds["elastic_scale_up"] == 6
    assert all_time(found) == found.total_seconds == 40
