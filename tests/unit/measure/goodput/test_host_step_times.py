"""Step times host by host, by each host's own clock."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_metrics.measure.goodput import MAX_COLUMNS, MAX_HOSTS, host_step_times
from ml_metrics.measure.goodput.host_step_times import HostTimes, host_map
from unit.measure.goodput.measuring import measured
from unit.measure.goodput.traces import job_end, job_start

Log = list[dict[str, Any]]


def host(name: str, seconds: list[float], *, ahead: float = 0.0, first: int = 0) -> Log:
    entries, time = job_start(1000 + ahead), 1010 + ahead
    for number, taken in enumerate(seconds):
        entries.append({"job_name": "job", "step_count": first + number, "step_start_time": time})
        time += taken
    return [{**entry, "host": name} for entry in [*entries, *job_end(time)]]


def compared(*logs: Log) -> HostTimes:
    found = measured([entry for log in logs for entry in log])
    assert found.hosts is not None
    document = found.document()["host_step_times"]
    assert [one["host"] for one in document["hosts"]] == [one.host for one in found.hosts.hosts]
    metrics = {metric.name: metric.value for metric in found.metrics()}
    assert metrics["step_time_slowdown"] == document["slowdown"]
    return found.hosts


@pytest.mark.parametrize("ahead", [0.0, 7.0, -200.0])
def test_the_slow_host_is_named(ahead: float) -> None:
    logs = [host(f"h{number}", [1.0] * 50, ahead=number * ahead) for number in range(3)]
    found = compared(*logs, host("slow", [1.0] * 10 + [1.5] * 40, ahead=ahead))
    assert found.slow is not None
    assert (found.slow.host, found.slow.slowest_in_steps, found.slow.behind_seconds) == ("slow", 39, 0.5)
    assert found.slowdown == pytest.approx((10 + 39 * 1.5) / 49)
    assert found.spread_seconds == pytest.approx(39 * 0.5 / 49)
    assert found.summary == (
        "4 hosts, 49 steps: the slowest takes 1.398 times the median; slow is the slowest in 80% of them, by 0.5 s"
    )


def test_hosts_that_are_slow_in_turn_are_not_named() -> None:
    chance = random.Random(3)
    found = compared(*(host(f"h{number}", [chance.uniform(1, 1.2) for _ in range(200)]) for number in range(4)))
    assert found.slow is None
    assert found.summary.endswith("no host is slow throughout")
    assert sum(one.slowest_in_steps for one in found.hosts) == found.steps == 199


def test_equal_hosts_have_no_slowest() -> None:
    found = compared(host("a", [2.0] * 20), host("b", [2.0] * 20))
    assert ([one.slowest_in_steps for one in found.hosts], found.slowdown, found.slow) == ([0, 0], 1, None)


def test_a_host_that_was_there_for_a_few_steps_does_not_limit_the_comparison() -> None:
    found = compared(host("a", [1.0] * 100), host("b", [1.3] * 100), host("brief", [1.0] * 10, ahead=1, first=90))
    assert ({one.host for one in found.hosts}, found.steps) == ({"a", "b"}, 99)


def test_one_host_and_hosts_without_common_steps_are_not_compared() -> None:
    assert measured(host("a", [1.0] * 20)).hosts is None
    apart = [*host("a", [1.0] * 20), *host("b", [1.0] * 20, ahead=5, first=500)]
    assert measured(apart).hosts is None
    assert "step_time_slowdown" not in {metric.name for metric in measured(apart).metrics()}


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.lists(st.floats(1e-3, 1e6), min_size=6, max_size=12), min_size=2, max_size=5),
    st.floats(-100, 100),
)
def test_any_step_times(seconds: list[list[float]], ahead: float) -> None:
    found = measured(
        [entry for number, one in enumerate(seconds) for entry in host(f"h{number}", one, ahead=number * ahead)]
    ).hosts
    if found is not None:
        assert found.slowdown >= 1
        assert found.spread_seconds >= 0
        assert sum(one.slowest_in_steps for one in found.hosts) <= found.steps


def loading(name: str, seconds: list[float], *, pace: float = 2.0, ahead: float = 0.0) -> Log:
    """A host whose steps all take the same time, because they end together; its data take these seconds to load."""
    entries, time = job_start(1000 + ahead), 1010 + ahead
    for number, taken in enumerate(seconds):
        entries.append({"job_name": "job", "step_count": number, "step_start_time": time})
        entries.append({"job_name": "job", "data_loading_start_time": time + 0.1})
        entries.append({"job_name": "job", "data_loading_end_time": time + 0.1 + taken})
        time += pace
    return [{**entry, "host": name} for entry in [*entries, *job_end(time)]]


@pytest.mark.parametrize("ahead", [0.0, -200.0])
def test_a_host_whose_data_all_others_wait_for(ahead: float) -> None:
    """Step times are equal, as the collective makes them: only the time before it shows the host."""
    logs = [loading(f"h{number}", [0.2] * 40, ahead=number * ahead) for number in range(3)]
    found = compared(*logs, loading("late", [0.2] * 4 + [1.5] * 36))
    assert found.slow is None
    assert found.late is not None
    assert (found.late.host, found.late.longest_loads) == ("late", 35)
    assert found.late.loading_seconds == pytest.approx((4 * 0.2 + 35 * 1.5) / 39)
    assert "late loads data for longer than all others in 90% of them" in found.summary


def test_data_that_take_little_of_a_step_hold_nobody_up() -> None:
    found = compared(loading("a", [0.2] * 40), loading("b", [0.2] * 40), loading("c", [0.25] * 40))
    assert (found.late, found.slow) == (None, None)


def test_hosts_that_record_no_loading_are_not_compared_by_it() -> None:
    found = compared(loading("a", [1.5] * 40), host("b", [2.0] * 40))
    assert {one.host: one.loading_seconds for one in found.hosts} == {"a": pytest.approx(1.5), "b": None}
    assert found.late is None


def test_the_map_of_hosts_by_steps() -> None:
    found = compared(*(host(f"h{number}", [1.0] * 30) for number in range(3)), host("slow", [1.0] * 10 + [1.5] * 20))
    assert (found.map["hosts"], found.map["first_steps"]) == (["h0", "h1", "h2", "slow"], list(range(29)))
    assert found.map["percent"] == [[0.0] * 29] * 3 + [[0.0] * 10 + [50.0] * 19]


def test_a_log_of_many_hosts_has_a_short_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_step_times, "MAX_LISTED", 8)
    found = measured([entry for number in range(MAX_HOSTS + 6) for entry in host(f"h{number}", [1.0] * 6)])
    document = found.document()["host_step_times"]
    assert (len(document["hosts"]), document["hosts_left_out"]) == (8, MAX_HOSTS - 2)
    assert (len(document["map"]["hosts"]), document["map"]["hosts_left_out"]) == (MAX_HOSTS, 6)


def test_the_map_of_a_long_job_of_many_hosts_is_thinned() -> None:
    """10,000 steps of 200 hosts, one of which is slow for a hundredth of the job."""
    seconds = np.random.default_rng(1).normal(1, 0.01, (200, 10_000))
    seconds[150, 4_000:4_100] = 2.0
    found = host_map([f"h{number}" for number in range(200)], np.arange(10_000), seconds)
    counts = (len(found["hosts"]), len(found["first_steps"]), found["hosts_left_out"])
    assert counts == (MAX_HOSTS, MAX_COLUMNS, 200 - MAX_HOSTS)
    row = found["percent"][found["hosts"].index("h150")]
    assert row[40] > 95
    assert max(row[:40]) < 2


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 70), st.integers(1, 250), st.sampled_from([0.0, 1e-300, 1.0, 1e9]))
def test_a_map_of_any_size(hosts: int, steps: int, scale: float) -> None:
    seconds = np.random.default_rng(hosts).exponential(scale, (hosts, steps)) if scale else np.zeros((hosts, steps))
    found = host_map([str(one) for one in range(hosts)], np.arange(steps) * 10, seconds)
    assert len(found["hosts"]) + found["hosts_left_out"] == hosts
    assert all(len(row) == len(found["first_steps"]) <= MAX_COLUMNS for row in found["percent"])
    assert np.isfinite(found["percent"]).all()
    assert found["last_step"] == (steps - 1) * 10
