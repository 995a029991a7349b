from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_metrics.core.limits import Allowance, Limits
from ml_metrics.measure.goodput.build import analyse, build_report, build_report_without
from ml_metrics.measure.goodput.log import Entries, EntriesBuilder
from unit.measure.goodput.measuring import all_time, close, measured
from unit.measure.goodput.random_jobs import orderly_jobs
from unit.measure.goodput.traces import custom, job_end, job_start, save, span, steps, wild_traces

if TYPE_CHECKING:
    from ml_metrics.measure.goodput import GoodputReport

LOGS = st.one_of(orderly_jobs(), wild_traces())


@settings(max_examples=50, deadline=None)
@given(LOGS, st.lists(st.floats(0, 1), max_size=5))
def test_windows_add_up_to_the_whole(entries: list[dict[str, Any]], cuts: list[float]) -> None:
    whole = measured(entries)
    if whole.start is None or whole.end is None:
        return
    edges = sorted([whole.start, *(whole.start + cut * whole.total_seconds for cut in cuts), whole.end])
    parts = [measured(entries, start=low, end=high) for low, high in pairwise(edges)]
    parts = [part for part in parts if part.found]
    assert close(sum(part.productive_seconds for part in parts), whole.productive_seconds)
    assert sum(part.disruptions for part in parts) == whole.disruptions
    for name, seconds in whole.badput_seconds.items():
        if name != "data_loading_async":  # loads may overlap each other, and are beside the timeline
            assert close(sum(part.badput_seconds[name] for part in parts), seconds)
    for part in parts:
        assert close(all_time(part), part.total_seconds)


@settings(max_examples=50, deadline=None)
@given(orderly_jobs(), st.integers(4, 30))
def test_regular_steps_that_are_taken_together_take_as_long(entries: list[dict[str, Any]], most: int) -> None:
    builder = EntriesBuilder(most_steps=most)
    for at in range(0, len(entries), 7):
        builder.add(entries[at : at + 7])
    found, whole = build_report(analyse(builder.build())), build_report(analyse(Entries.of(entries)))
    assert close(found.total_seconds, whole.total_seconds)
    assert (found.disruptions, found.max_productive_step) == (whole.disruptions, whole.max_productive_step)
    assert found.custom_badput_seconds == whole.custom_badput_seconds
    moved = ("program_startup", "wasted_progress_from_disruption")  # the mean of steps, and a place between two
    for name in whole.badput_seconds.keys() - set(moved):
        assert close(found.badput_seconds[name], whole.badput_seconds[name])

    def steps_of(one: GoodputReport) -> float:
        return one.productive_seconds + sum(one.badput_seconds[name] for name in moved)

    assert close(steps_of(found), steps_of(whole))


def test_a_long_log_keeps_its_stall_and_says_what_it_does_not_cover() -> None:
    entries = [*job_start(0), *steps(0, 5000, 0), *steps(5000, 9000, 60_000), *job_end(100_010)]
    builder = EntriesBuilder(most_steps=500)
    builder.add(entries)
    found, whole = (build_report(analyse(one, stalls=True)) for one in (builder.build(), Entries.of(entries)))
    assert found.stalls == whole.stalls
    assert found.summary == whole.summary
    assert "32 regular steps after each other are taken together as one" in found.warnings[0]
    builder = EntriesBuilder(allowance=Allowance(Limits(points=100)))
    builder.add(entries)
    covered = build_report(analyse(builder.build()))
    assert covered.summary.endswith("; the last 8,904 entries of the log are not in it")


@settings(max_examples=50, deadline=None)
@given(LOGS, st.floats(-1e6, 1e6))
def test_only_time_differences_count(entries: list[dict[str, Any]], moved: float) -> None:
    elsewhere = [
        {key: value + moved if _is_time(key) and value is not None else value for key, value in entry.items()}
        for entry in entries
    ]
    one, other = measured(entries), measured(elsewhere)
    assert one.found == other.found
    assert one.productive_seconds == pytest.approx(other.productive_seconds, abs=1e-4)
    assert one.badput_seconds == pytest.approx(other.badput_seconds, abs=1e-4)


def _is_time(key: str) -> bool:
    return key.endswith("_time")


def test_rolling_windows_end_with_the_job() -> None:
    entries = [*job_start(0), *steps(0, 9, 0), *span("tpu_init", 95, 100), *steps(10, 10, 105), *job_end(115)]
    found = measured(entries, windows=[20, 60, 1000])
    assert [window.total_seconds for _, window in found.windows] == [20, 60, 115]
    assert [window.goodput_percent for _, window in found.windows] == pytest.approx(
        [75, 55 / 60 * 100, 110 / 115 * 100]
    )
    assert found.document()["rolling_windows"][0]["badput_seconds"]["tpu_initialization"] == 5


def test_a_window_has_its_own_step_deviation() -> None:
    entries = [*job_start(0), *steps(0, 4, 0), *steps(5, 10, 50, each=20), *job_end(170)]
    found = measured(entries, start=45, end=120)
    assert found.deviation is not None
    assert (found.deviation.step.tolist(), found.deviation.ideal) == ([5, 6, 7], 20)
    assert (found.last_step, found.max_productive_step) == (8, 7)


def test_saves_count_in_the_window_in_which_they_happened() -> None:
    entries = [*job_start(0), *steps(0, 4, 0), *save(4, 42, 5), *steps(5, 10, 50), *job_end(110)]
    early, late = measured(entries, end=40), measured(entries, start=40)
    name = "unproductive_checkpoint_save_time"
    assert (early.badput_seconds[name], late.badput_seconds[name]) == (0, 5)


def test_a_step_that_is_saved_twice_takes_the_time_of_both_unless_two_workers_report_one_save() -> None:
    """Lightning saves a step under its own name, and again as the last one."""
    name = "unproductive_checkpoint_save_time"
    before, after = [*job_start(0), *steps(0, 4, 0)], [*steps(5, 10, 60), *job_end(120)]
    assert measured([*before, *save(4, 42, 5), *save(4, 47, 7), *after]).badput_seconds[name] == 12
    assert measured([*before, *save(4, 42, 5), *save(4, 43, 7), *after]).badput_seconds[name] == 6


@settings(max_examples=40, deadline=None)
@given(LOGS, st.lists(st.tuples(st.floats(-0.2, 1.2), st.floats(-0.2, 1.2)), max_size=4))
def test_excluded_and_remaining_time_add_up_to_the_total(
    entries: list[dict[str, Any]], shares: list[tuple[float, float]]
) -> None:
    analysis = analyse(Entries.of(entries))
    whole = build_report(analysis)
    if whole.start is None:
        return
    at = [(whole.start + low * whole.total_seconds, whole.start + high * whole.total_seconds) for low, high in shares]
    left = build_report_without(analysis, at)
    assert 0 <= left.excluded_seconds <= whole.total_seconds
    assert close(left.total_seconds + left.excluded_seconds, whole.total_seconds)
    assert close(all_time(left), left.total_seconds)


def test_every_metric_has_a_name_and_a_number() -> None:
    metrics = {
        metric.name: metric.value for metric in measured([*job_start(0), *steps(0, 4, 10), *job_end(60)]).metrics()
    }
    assert metrics["goodput"] == pytest.approx(50 / 60 * 100)
    assert (metrics["badput_other_seconds"], metrics["disruptions"]) == (10, 0)
    assert metrics["badput_other_percent"] == pytest.approx(10 / 60 * 100)
    assert metrics["badput_custom_badput_events_seconds"] == 0
    assert metrics["step_time_deviation_p90"] == 0
    assert "badput_elastic_slice_down_seconds" not in metrics


def test_the_longest_custom_events_are_metrics() -> None:
    events = [
        one for number in range(60) for one in custom(f"e{number}", 11 + number / 8, 11 + number / 8 + number / 999)
    ]
    events += custom("badput_events", 19, 20)
    found = measured([*job_start(0), *steps(0, 1, 0), *events, *steps(2, 9, 20), *job_end(100)])
    metrics = {metric.name: metric.value for metric in found.metrics()}
    types = [name for name in metrics if name.startswith("badput_custom_badput_events_") and name.endswith("_seconds")]
    assert (len(types), len(found.custom_badput_seconds)) == (51, 60)
    assert metrics["badput_custom_badput_events_badput_events_seconds"] == 1
    assert metrics["badput_custom_badput_events_seconds"] == pytest.approx(sum(found.custom_badput_seconds.values()))
    assert "badput_custom_badput_events_e1_seconds" not in metrics
