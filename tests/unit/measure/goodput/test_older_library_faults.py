"""Each fault of the older library, with the smallest log that shows it; docs/goodput.md lists some of them."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from ml_goodput_measurement.src import goodput as older
from ml_goodput_measurement.src.goodput_elastic import ElasticGoodputCalculator

from unit.measure.goodput import older_library
from unit.measure.goodput.measuring import all_time, close, measured
from unit.measure.goodput.traces import JOB, custom, entry, in_time, job_end, job_start, restore, save, span, steps

NOW = 5000.0


@dataclass(frozen=True)
class Fault:
    name: str
    entries: list[dict[str, Any]]
    theirs: dict[str, float]
    """The older library's figures."""
    right: dict[str, float]


FAULTS = [
    Fault(
        "a restart at the very next step is not a disruption, and its downtime is productive",
        [*job_start(0), *steps(0, 10, 0), *job_start(3700), *steps(11, 20, 3710), *job_end(3810)],
        {"productive": 3810, "disruptions": 0},
        {"productive": 210, "disruptions": 1, "infrastructure_recovery_from_disruption": 3590, "other": 10},
    ),
    Fault(
        "a restart that never reaches a step makes the last step productive to the end",
        [*job_start(0), *steps(0, 10, 0), *job_start(200), *job_end(300)],
        {"productive": 300, "disruptions": 0},
        {"productive": 100, "disruptions": 1, "infrastructure_recovery_from_disruption": 100, "other": 100},
    ),
    Fault(
        "a restart at step 0 wastes nothing",
        [*job_start(0), *steps(0, 10, 0), *job_start(200), *steps(0, 10, 210), *job_end(320)],
        {"productive": 110, "wasted_progress_from_disruption": 0, "other": 110},
        {"productive": 110, "wasted_progress_from_disruption": 100, "other": 10},
    ),
    Fault(
        "steps are productive twice if a restart returns to a step before the previous restart",
        [
            *(*job_start(0), *steps(0, 60, 0)),
            *(*job_start(700), *steps(50, 60, 710)),
            *(*job_start(900), *steps(40, 60, 910), *job_end(1120)),
        ],
        {"productive": 700, "infrastructure_recovery_from_disruption": 100},
        {"productive": 610, "disruptions": 2, "infrastructure_recovery_from_disruption": 190, "other": 20},
    ),
    Fault(
        "the first data load during steps after a restart counts as synchronous",
        [
            *(*job_start(0), *in_time([*span("data_loading", 0, 5), *steps(0, 5, 5)])),
            *(*job_start(65), *span("data_loading", 66, 71), *steps(3, 4, 71)),
            *(*span("data_loading", 88, 91), *steps(5, 11, 91), *job_end(161)),
        ],
        {"data_loading_sync": 13},
        {"data_loading_sync": 10, "data_loading_async": 3},
    ),
    Fault(
        "without a load after the restart, the load before it counts again",
        [*job_start(0), *span("data_loading", 0, 5), *steps(0, 5, 5), *job_start(65), *steps(3, 11, 71), *job_end(161)],
        {"data_loading_sync": 10},
        {"data_loading_sync": 5},
    ),
    Fault(
        "a first load during steps is synchronous",
        [*job_start(0), *steps(0, 1, 0), *span("data_loading", 12, 15), *steps(2, 3, 20), *job_end(40)],
        {"productive": 40, "data_loading_sync": 3},
        {"productive": 40, "data_loading_sync": 0, "data_loading_async": 3},
    ),
    Fault(
        "repeated setup counts as setup and as recovery",
        [
            *(*job_start(0), *span("tpu_init", 0, 10), *steps(0, 10, 10)),
            *(*job_start(120), *span("tpu_init", 120, 220)),
            *(*job_start(300), *span("tpu_init", 300, 310), *steps(6, 10, 310), *job_end(360)),
        ],
        {"infrastructure_recovery_from_disruption": 190, "tpu_initialization": 120, "other": 0},
        {"infrastructure_recovery_from_disruption": 90, "tpu_initialization": 120, "other": 0},
    ),
    Fault(
        "a save in lost steps is subtracted from the productive time as well",
        [
            *(*job_start(0), *steps(0, 8, 0), *save(8, 85, 50), *steps(9, 9, 140)),
            *(*job_start(200), *steps(5, 12, 200), *job_end(280)),
        ],
        {"productive": 80, "unproductive_checkpoint_save_time": 50},
        {"productive": 130, "unproductive_checkpoint_save_time": 50, "wasted_progress_from_disruption": 40},
    ),
    Fault(
        "two saves of one step, before and after a restart, count as their mean",
        [
            *(*job_start(0), *steps(0, 8, 0), *save(8, 85, 50), *steps(9, 9, 140)),
            *(*job_start(200), *steps(8, 8, 200), *save(8, 205, 50), *steps(9, 9, 260), *job_end(270)),
        ],
        {"unproductive_checkpoint_save_time": 50},
        {"unproductive_checkpoint_save_time": 100},
    ),
    Fault(
        "steps are lost if not every step is logged",
        [*job_start(0), *steps(0, 90, 0, every=10), *job_end(1000)],
        {"productive": 100},
        {"productive": 1000},
    ),
    Fault(
        "steps are lost if an entry is lost",
        [*job_start(0), *steps(0, 4, 0), *steps(6, 10, 60), *job_end(110)],
        {"productive": 90, "other": 20},
        {"productive": 110, "other": 0},
    ),
    Fault(
        "every step is a disruption if two workers record",
        [*job_start(0), *in_time([*steps(0, 10, 0), *steps(0, 10, 0.5)]), *job_end(110)],
        {"disruptions": 11},
        {"disruptions": 0, "productive": 110},
    ),
    Fault(
        "a custom event that extends into the next step is left out",
        [*job_start(0), *steps(0, 0, 0), *in_time([*custom("eval", 5, 15), *steps(1, 3, 10)]), *job_end(40)],
        {"productive": 40},
        {"productive": 30, "EVAL": 10},
    ),
    Fault(
        "a custom event in the last step is productive",
        [*job_start(0), *steps(0, 3, 0), *custom("eval", 35, 135), *job_end(140)],
        {"productive": 140},
        {"productive": 40, "EVAL": 100},
    ),
    Fault(
        "custom events that overlap are both subtracted",
        [
            *(*job_start(0), *steps(0, 0, 0)),
            *in_time([*custom("eval", 3, 10), *custom("check", 4, 9)]),
            *(*steps(1, 3, 15), *job_end(45)),
        ],
        {"productive": 33, "EVAL": 7, "CHECK": 5},
        {"productive": 38, "EVAL": 2, "CHECK": 5},
    ),
    Fault(
        "a restore within the preparation counts twice",
        in_time([*job_start(0), *span("training_prep", 0, 100), *restore(0, 5, 90), *steps(0, 4, 100), *job_end(150)]),
        {"productive": 50, "training_prep": 100, "unproductive_checkpoint_restore_time": 90},
        {"productive": 50, "training_prep": 10, "unproductive_checkpoint_restore_time": 90},
    ),
    Fault(
        "setup within a step is badput and productive",
        [*job_start(0), *steps(0, 2, 0), *span("tpu_init", 25, 35), *steps(3, 4, 40), *job_end(60)],
        {"productive": 60, "tpu_initialization": 10},
        {"productive": 50, "tpu_initialization": 10},
    ),
]


def _figures(found: Any, badput: dict[str, float], custom_badput: dict[str, float]) -> dict[str, float]:
    return {"disruptions": found.disruptions, **badput, **custom_badput}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault(fault: Fault) -> None:
    theirs = older_library.figures_of(fault.entries, NOW)
    figures = {"productive": theirs.productive, **_figures(theirs, theirs.badput, theirs.custom)}
    assert {name: figures.get(name, 0.0) for name in fault.theirs} == pytest.approx(fault.theirs, abs=1e-6)

    found = measured(fault.entries, until=NOW)
    ours = {
        "productive": found.productive_seconds,
        **_figures(found, found.badput_seconds, found.custom_badput_seconds),
    }
    assert {name: ours.get(name, 0.0) for name in fault.right} == pytest.approx(fault.right, abs=1e-6)
    assert close(all_time(found), found.total_seconds)


def test_an_end_followed_by_a_restart_does_not_count() -> None:
    entries = [*job_start(0), *steps(0, 10, 0), *job_end(110), *job_start(200), *steps(5, 39, 210)]
    with pytest.raises(ValueError, match="Productive training time is invalid"):
        older_library.figures_of(entries, 600.0)
    found = measured(entries, until=600.0)
    assert (found.total_seconds, found.productive_seconds, found.ended) == (600.0, 390.0, False)
    assert "started again" in " ".join(found.warnings)


def test_steps_under_a_second_have_an_ideal_step_time() -> None:
    entries = [*job_start(0), *steps(0, 10, 0, each=0.5), *job_end(5.5)]
    with older_library.calculator(entries, NOW) as theirs, pytest.raises(ValueError, match="No ideal step time"):
        theirs.get_step_deviation()
    found = measured(entries)
    assert found.deviation is not None
    assert found.deviation.ideal == pytest.approx(0.5)


def test_an_ideal_step_time_of_a_later_query_counts() -> None:
    entries = [*job_start(0), *steps(0, 10, 0), *job_end(110)]
    with older_library.calculator(entries, NOW) as theirs:
        assert theirs.get_step_deviation()[0] == pytest.approx(0.0)
        theirs._cloud_logger.entries = []
        assert theirs.get_step_deviation(4.0)[0] == pytest.approx(0.0)
    given = measured(entries, ideal_step_time=4.0).deviation
    assert given is not None
    assert given.absolute[0] == pytest.approx(6.0)


def test_times_may_be_whole_numbers() -> None:
    entries = [
        {key: int(value) if "time" in key else value for key, value in one.items()}
        for one in [
            *(*job_start(0), *steps(0, 10, 0), *job_start(200), *steps(5, 10, 210)),
            *(*job_start(410), *steps(5, 10, 420), *job_end(480)),
        ]
    ]
    theirs = older_library.figures_of(entries, NOW).badput["infrastructure_recovery_from_disruption"]
    ours = measured(entries).badput_seconds["infrastructure_recovery_from_disruption"]
    assert (theirs, ours) == (100, 250)


def test_deviations_are_the_same_with_and_without_exclusions() -> None:
    entries = [*job_start(0), *steps(0, 5, 0), *steps(6, 10, 57), *job_end(107)]
    with older_library.calculator(entries, NOW) as theirs:
        plain = theirs.get_step_deviation()
        theirs.get_job_goodput_with_exclusions([])
        excluded = theirs.get_job_goodput_details()["step_time_deviation"]
    assert plain[5] > 0 > excluded[5]
    found = measured(entries)
    assert found.deviation is not None
    assert found.deviation.signed[5] == pytest.approx(7 - found.deviation.ideal)


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
