"""Step times and throughput, without the time that was lost in steps."""

from __future__ import annotations

from typing import Any

import pytest

from ml_metrics.measure.goodput.build import analyse, build_report
from ml_metrics.measure.goodput.log import Entries
from unit.measure.goodput.traces import custom, in_time, job_end, job_start, steps


def rate_of(entries: list[dict[str, Any]], **options: Any) -> dict[str, float]:
    report = build_report(analyse(Entries.of(entries), stalls=True), **options)
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


def test_a_log_of_every_tenth_step() -> None:
    found = rate_of([*job_start(0), *steps(0, 200, 0, each=0.5, every=10), *job_end(105)])
    assert found == {"step_time_p50": 0.5, "step_time_p90": 0.5, "step_time_p99": 0.5, "steps_per_second": 2}


def test_short_jobs_and_windows_have_no_step_times() -> None:
    assert rate_of([*job_start(0), *steps(0, 9, 0), *job_end(100)]) == {}
    entries = [*job_start(0), *steps(0, 100, 0), *job_end(1010)]
    assert set(rate_of(entries)) == set(NAMES)
    assert rate_of(entries, start=500, end=550) == {}
