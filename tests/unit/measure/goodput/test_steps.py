"""Step times: stalls, which are the part of a step that is beyond any usual step; schedules; and the rate."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_metrics.measure.goodput import GoodputReport
from ml_metrics.measure.goodput.build import analyse, build_report
from ml_metrics.measure.goodput.log import Entries
from ml_metrics.measure.goodput.steps import recurring
from unit.measure.goodput.measuring import all_time, close
from unit.measure.goodput.random_jobs import orderly_jobs
from unit.measure.goodput.traces import custom, in_time, job_end, job_start, span, steps, wild_traces

HOUR = 3600.0


def measured(entries: list[dict[str, Any]], *, stalls: bool = True, **options: Any) -> GoodputReport:
    return build_report(analyse(Entries.of(entries), stalls=stalls), **options)


def job(seconds: list[float], *, first: int = 0, start: float = 0.0) -> list[dict[str, Any]]:
    """A job whose steps take these times."""
    entries, time = job_start(start), start
    for number, taken in enumerate(seconds):
        entries += steps(first + number, first + number, time)
        time += taken
    return [*entries, *job_end(time)]


def stalled_steps(found: GoodputReport) -> list[int]:
    return [stall.step for stall in found.stalls]


@pytest.mark.parametrize("at", [1, 7, 50, 98, 99])
@pytest.mark.parametrize("length", [6, 30, 100, 1000])
def test_an_hour_in_a_step_is_a_stall(at: int, length: int) -> None:
    where = max(1, at * length // 100)
    seconds = [10.0] * length
    seconds[where] += HOUR
    found = measured(job(seconds))
    assert stalled_steps(found) == [where]
    assert found.badput_seconds["stall"] == pytest.approx(HOUR)
    assert found.productive_seconds == pytest.approx(10 * length)
    assert all_time(found) == pytest.approx(found.total_seconds)
    assert measured(job(seconds), stalls=False).goodput_percent == 100


def test_the_first_step_has_start_up_instead() -> None:
    found = measured(job([HOUR, *[10.0] * 30]))
    assert (found.badput_seconds["program_startup"], found.badput_seconds["stall"]) == (HOUR - 10, 0)


def test_programs_may_be_compiled_in_several_steps() -> None:
    assert measured(job([300.0, 290.0, *[1.0] * 100])).badput_seconds["stall"] == 0
    assert stalled_steps(measured(job([300.0, 290.0, *[1.0] * 100, 290.0, *[1.0] * 100]))) == [102]


@pytest.mark.parametrize("stalled", [(137, 420), (3, 4), (10, 499), (100, 250), (60, 61, 333)])
def test_several_stalls(stalled: tuple[int, ...]) -> None:
    seconds = [10.0] * 500
    for at in stalled:
        seconds[at] += HOUR / (1 + at % 3)
    found = measured(job(seconds))
    assert stalled_steps(found) == list(stalled)
    assert found.badput_seconds["stall"] == pytest.approx(sum(HOUR / (1 + at % 3) for at in stalled))


@pytest.mark.parametrize("remainder", [0, 1, 99])
@pytest.mark.parametrize("length", [250, 499, 1000, 1001])
def test_a_long_step_that_recurs_is_usual(remainder: int, length: int) -> None:
    seconds = [60.0 if at % 100 == remainder and at > 0 else 1.0 for at in range(length)]
    assert measured(job(seconds)).badput_seconds["stall"] == 0
    seconds[137] = HOUR
    found = measured(job(seconds))
    assert stalled_steps(found) == [137]
    assert found.badput_seconds["stall"] == pytest.approx(HOUR - 60)


def test_a_stall_in_a_step_that_recurs() -> None:
    seconds = [60.0 if at % 100 == 99 else 1.0 for at in range(1000)]
    seconds[599] += HOUR
    found = measured(job(seconds))
    assert (stalled_steps(found), found.badput_seconds["stall"]) == ([599], pytest.approx(HOUR))


def test_two_schedules_and_one_by_time_are_usual() -> None:
    both = [1.0 + 30 * (at % 100 == 99) + 70 * (at % 250 == 249) for at in range(2000)]
    assert measured(job(both)).badput_seconds["stall"] == 0
    by_time = [50.0 if at in {61, 119, 181, 240, 302, 361} else 1.0 for at in range(420)]
    assert measured(job(by_time)).badput_seconds["stall"] == 0


def test_steps_of_any_usual_size_are_no_stalls() -> None:
    chance = random.Random(5)
    for spread in (0.05, 0.3, 0.5):
        seconds = [chance.lognormvariate(0, spread) for _ in range(3000)]
        assert measured(job(seconds)).badput_seconds["stall"] == 0
    slow = [1.0] * 500 + [9.0] * 500  # the job continues at another speed
    assert measured(job(slow)).badput_seconds["stall"] == 0


def test_a_recorded_event_explains_a_step() -> None:
    entries = [*job_start(0), *steps(0, 50, 0), *custom("eval", 505, 4100), *steps(51, 99, 4110), *job_end(4600)]
    found = measured(entries)
    assert (found.badput_seconds["stall"], found.custom_badput_seconds) == (0, {"EVAL": 3595})


def test_a_stall_beside_a_recorded_event_is_the_rest_of_the_step() -> None:
    entries = [*job_start(0), *steps(0, 50, 0), *custom("eval", 800, 900), *steps(51, 99, 1610), *job_end(2100)]
    found = measured(entries)
    assert (found.custom_badput_seconds, found.badput_seconds["stall"]) == ({"EVAL": 100}, 1000)
    early = measured(entries, end=900 - 1e-9)
    assert early.badput_seconds["stall"] + measured(entries, start=900 - 1e-9).badput_seconds["stall"] == 1000


def test_a_restart_is_recovery_and_lost_steps_do_not_stall() -> None:
    first = [*job_start(0), *steps(0, 60, 0)]
    again = [*job_start(700), *steps(50, 99, 710), *job_end(1210)]
    assert measured([*first, *again]).badput_seconds["stall"] == 0
    lost = [*job_start(0), *steps(0, 55, 0), *steps(56, 60, 4000), *job_start(4100), *steps(50, 99, 4110)]
    found = measured([*lost, *job_end(4610)])
    assert found.badput_seconds["stall"] == 0
    assert found.badput_seconds["wasted_progress_from_disruption"] == pytest.approx(4040 - 500)


def test_a_restart_on_fewer_hosts_makes_steps_slower() -> None:
    entries = [*job_start(0), *steps(0, 400, 0, each=1), *job_start(450), *steps(401, 420, 460, each=9), *job_end(640)]
    assert measured(entries).badput_seconds["stall"] == 0


def test_a_log_of_every_tenth_step() -> None:
    entries = [*job_start(0), *steps(0, 500, 0, each=1, every=10), *steps(510, 995, HOUR + 510, each=1, every=10)]
    found = measured([*entries, *job_end(HOUR + 1000)])
    assert stalled_steps(found) == [500]
    assert found.badput_seconds["stall"] == pytest.approx(HOUR)


def test_time_between_segments_is_no_stall() -> None:
    entries = [*job_start(0), *span("training_prep", 0, 100), *steps(0, 50, HOUR), *job_end(HOUR + 510)]
    assert measured(entries).badput_seconds["stall"] == 0


@settings(max_examples=200, deadline=None)
@given(st.one_of(orderly_jobs(), wild_traces()), st.floats(0, 1))
def test_time_adds_up_with_stalls(entries: list[dict[str, Any]], cut: float) -> None:
    with_stalls, without = measured(entries), measured(entries, stalls=False)
    assert with_stalls.found == without.found
    if with_stalls.start is None or with_stalls.end is None:
        return
    stall = with_stalls.badput_seconds["stall"]
    assert close(all_time(with_stalls), with_stalls.total_seconds)
    assert close(with_stalls.productive_seconds + stall, without.productive_seconds)
    assert close(stall, sum(one.seconds for one in with_stalls.stalls))
    for name, seconds in without.badput_seconds.items():
        assert with_stalls.badput_seconds[name] == seconds
    at = with_stalls.start + cut * with_stalls.total_seconds
    halves = [measured(entries, end=at), measured(entries, start=at)]
    assert close(sum(half.badput_seconds.get("stall", 0.0) for half in halves), stall)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from([1e-308, 1e-9, 1.0, 10.0, 3600.0, 1e9]), min_size=1, max_size=60),
    st.sampled_from([0.0, -1e10, 1.7e9]),
)
def test_steps_of_any_length(seconds: list[float], start: float) -> None:
    found = measured(job(seconds, start=start))
    assert all_time(found) == pytest.approx(found.total_seconds)
    assert all(stall.seconds > 0 for stall in found.stalls)


def usual(steps: dict[int, float], span: tuple[int, int]) -> list[float]:
    return list(recurring(np.array(list(steps)), np.array(list(steps.values())), span))


@pytest.mark.parametrize(
    ("steps", "span", "expected"),
    [
        ({}, (0, 10), []),
        ({70: 9.0}, (0, 100), []),
        ({100: 9.0, 200: 8.0}, (1, 250), [8.5]),
        ({100: 9.0, 200: 80.0}, (1, 250), []),  # of different sizes
        ({100: 9.0, 200: 8.0}, (1, 450), []),  # and nothing at 300 and 400
        ({137: 9.0, 420: 8.0}, (1, 500), []),
        ({100: 9.0, 137: 900.0, 200: 9.0}, (1, 250), [9.0]),
        ({99: 9.0, 199: 9.0, 299: 900.0, 399: 9.0}, (1, 450), [9.0]),
        ({61: 5.0, 119: 5.0, 137: 900.0, 181: 5.0, 240: 5.0, 302: 5.0}, (1, 350), [5.0]),
        ({5: 5.0, 6: 5.0, 7: 5.0}, (1, 10), []),
    ],
)
def test_long_steps_on_a_schedule(steps: dict[int, float], span: tuple[int, int], expected: list[float]) -> None:
    assert usual(steps, span) == expected


def test_two_schedules() -> None:
    steps = {step: 30.0 * (step % 100 == 0) + 70.0 * (step % 250 == 0) for step in range(1, 2000)}
    assert usual({step: seconds for step, seconds in steps.items() if seconds}, (1, 1999)) == [30.0, 70.0]


def rate_of(entries: list[dict[str, Any]], **options: Any) -> dict[str, float]:
    report = measured(entries, **options)
    metrics = {metric.name: metric.value for metric in report.metrics()}
    found = {name: value for name, value in metrics.items() if name in NAMES}
    assert found == (report.document()["step_times"] or {})
    return found


NAMES = ("step_time_p50", "step_time_p90", "step_time_p99", "steps_per_second")


def test_restarts_events_stalls_and_start_up_do_not_change_the_throughput() -> None:
    entries = [
        *job_start(0), *steps(0, 0, 10), *steps(1, 60, 100, each=2),
        *job_start(500), *steps(50, 50, 510), *steps(51, 80, 600, each=2),
        *custom("eval", 661, 700), *steps(81, 120, 702, each=2), *steps(121, 160, 3000, each=2), *job_end(3080),
    ]  # fmt: skip
    found = rate_of(in_time(entries))
    assert found["step_time_p50"] == found["step_time_p90"] == 2
    assert found["step_time_p99"] > 2
    assert found["steps_per_second"] == pytest.approx(0.5, rel=0.01)


def test_the_rate_of_a_log_of_every_tenth_step() -> None:
    found = rate_of([*job_start(0), *steps(0, 200, 0, each=0.5, every=10), *job_end(105)])
    assert found == {"step_time_p50": 0.5, "step_time_p90": 0.5, "step_time_p99": 0.5, "steps_per_second": 2}


def test_short_jobs_and_windows_have_no_step_times() -> None:
    assert rate_of([*job_start(0), *steps(0, 9, 0), *job_end(100)]) == {}
    entries = [*job_start(0), *steps(0, 100, 0), *job_end(1010)]
    assert set(rate_of(entries)) == set(NAMES)
    assert rate_of(entries, start=500, end=550) == {}
