"""The map of hosts by steps: bounded, whatever the number of hosts and steps."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_metrics.measure.goodput import MAX_COLUMNS, MAX_HOSTS
from ml_metrics.measure.goodput.host_step_times import host_map


def test_a_long_job_of_many_hosts_is_thinned() -> None:
    """100,000 steps of 200 hosts, one of which is slow for a hundredth of the job."""
    seconds = np.random.default_rng(1).normal(1, 0.01, (200, 100_000))
    seconds[150, 40_000:41_000] = 2.0
    found = host_map([f"h{number}" for number in range(200)], np.arange(100_000), seconds)
    assert (len(found.hosts), len(found.steps), found.left_out) == (MAX_HOSTS, MAX_COLUMNS, 200 - MAX_HOSTS)
    row = found.percent[found.hosts.index("h150")]
    assert row[40] > 95
    assert max(row[:40]) < 1


def test_without_time() -> None:
    found = host_map(["a", "b"], np.arange(3), np.zeros((2, 3)))
    assert found.percent == ((0.0,) * 3,) * 2


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 70), st.integers(1, 250), st.sampled_from([0.0, 1e-300, 1.0, 1e9]))
def test_any_size(hosts: int, steps: int, scale: float) -> None:
    seconds = np.random.default_rng(hosts).exponential(scale, (hosts, steps)) if scale else np.zeros((hosts, steps))
    found = host_map([str(one) for one in range(hosts)], np.arange(steps) * 10, seconds)
    assert len(found.hosts) + found.left_out == hosts
    assert all(len(row) == len(found.steps) <= MAX_COLUMNS for row in found.percent)
    assert np.isfinite(found.percent).all()
    assert found.last_step == (steps - 1) * 10
