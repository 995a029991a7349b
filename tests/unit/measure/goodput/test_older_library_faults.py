"""Each fault of the older library, with the smallest log that shows it; docs/goodput.md lists some of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from unit.measure.goodput import older_library
from unit.measure.goodput.measuring import all_time, close, measured
from unit.measure.goodput.traces import custom, in_time, job_end, job_start, restore, save, span, steps

NOW = 5000.0


@dataclass(frozen=True)
class Fault:
    name: str
    entries: list[dict[str, Any]]
    older: dict[str, float]
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
    older = {"productive": theirs.productive, **_figures(theirs, theirs.badput, theirs.custom)}
    assert {name: older.get(name, 0.0) for name in fault.older} == pytest.approx(fault.older, abs=1e-6)

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
    with older_library.calculator(entries, NOW) as older, pytest.raises(ValueError, match="No ideal step time"):
        older.get_step_deviation()
    found = measured(entries)
    assert found.deviation is not None
    assert found.deviation.ideal == pytest.approx(0.5)


def test_an_ideal_step_time_of_a_later_query_counts() -> None:
    entries = [*job_start(0), *steps(0, 10, 0), *job_end(110)]
    with older_library.calculator(entries, NOW) as older:
        assert older.get_step_deviation()[0] == pytest.approx(0.0)
        older._cloud_logger.entries = []
        assert older.get_step_deviation(4.0)[0] == pytest.approx(0.0)
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
    older = older_library.figures_of(entries, NOW).badput["infrastructure_recovery_from_disruption"]
    ours = measured(entries).badput_seconds["infrastructure_recovery_from_disruption"]
    assert (older, ours) == (100, 250)


def test_deviations_are_the_same_with_and_without_exclusions() -> None:
    entries = [*job_start(0), *steps(0, 5, 0), *steps(6, 10, 57), *job_end(107)]
    with older_library.calculator(entries, NOW) as older:
        plain = older.get_step_deviation()
        older.get_job_goodput_with_exclusions([])
        excluded = older.get_job_goodput_details()["step_time_deviation"]
    assert plain[5] > 0 > excluded[5]
    found = measured(entries)
    assert found.deviation is not None
    assert found.deviation.signed[5] == pytest.approx(7 - found.deviation.ideal)
