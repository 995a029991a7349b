"""Step times host by host: which worker is slower than the others, how often, and by how much.

A step's time on a host is the difference of two times by the host's own clock, so clocks need not agree.

If every step ends with a collective, all hosts take as long as the slowest one, and their step times do not show which
that is. The work of a host before the collective does: the loading of its data, as far as it is recorded.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from ml_metrics.measure.goodput.log import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ml_metrics.measure.goodput.log import Entries
    from ml_metrics.measure.goodput.workers import Worker


MAX_HOSTS = 64
"""The hosts that behave least like the others are kept."""
MAX_COLUMNS = 100
MAX_NAME = 100
"""The characters of a host's name that are drawn."""
MOST_PERCENT = 1e6


@dataclass(frozen=True, slots=True)
class HostMap:
    """How much longer than the median of the hosts each host took, in percent, by spans of steps."""

    hosts: tuple[str, ...]
    steps: tuple[int, ...]
    """The first step of each column."""
    last_step: int
    percent: tuple[tuple[float, ...], ...]
    """A row for each host."""
    left_out: int
    """Hosts that are not drawn."""

    def document(self) -> dict[str, Any]:
        return {
            "hosts": list(self.hosts),
            "first_steps": list(self.steps),
            "last_step": self.last_step,
            "percent": [list(row) for row in self.percent],
            "hosts_left_out": self.left_out,
        }


def host_map(names: Sequence[str], steps: NDArray[np.int64], seconds: NDArray[np.float64]) -> HostMap:
    """Return the map of a table of step times, with a row for each host and a column for each step."""
    starts = np.unique(np.linspace(0, len(steps), min(MAX_COLUMNS, len(steps)), endpoint=False).astype(int))
    usual = np.median(seconds, axis=0)
    sums, all_usual = np.add.reduceat(seconds, starts, axis=1), np.add.reduceat(usual, starts)
    share = np.divide(sums, all_usual, out=np.ones_like(sums), where=all_usual > 0)
    percent = np.clip((share - 1) * 100, -MOST_PERCENT, MOST_PERCENT)
    kept = np.sort(np.argsort(-np.abs(percent).max(axis=1), kind="stable")[:MAX_HOSTS])
    return HostMap(
        hosts=tuple(names[index][:MAX_NAME] for index in kept),
        steps=tuple(steps[starts].tolist()),
        last_step=int(steps[-1]),
        percent=tuple(tuple(round(value, 2) for value in percent[index].tolist()) for index in kept),
        left_out=len(names) - len(kept),
    )


FEWEST_STEPS = 3
SLOW = 1.05
"""A host is slow if its median step takes more than this, in times the median of the hosts,"""
OFTEN = 0.5
"""and if it is the slowest in at least this share of the steps."""
MAX_LISTED = 256
"""The hosts that a report lists: a log may name very many."""
HELD_UP = 0.05
"""A host holds the others up if it loads data for longer than they do by at least this share of a step."""


@dataclass(frozen=True, slots=True)
class HostTime:
    """The step times of one host, in the steps that all hosts recorded."""

    name: str
    median_seconds: float
    slowest: int
    """In how many steps it was slower than all others."""
    behind_seconds: float
    """By how much it was slower than the median of the hosts in these steps, on average."""
    loading_seconds: float | None = None
    """How long it loaded data in a step, on average; None if that is not recorded."""
    longest_loads: int = 0
    """In how many steps it loaded data for longer than all others."""


@dataclass(frozen=True, slots=True)
class HostTimes:
    """The step times of all hosts, the slowest first."""

    hosts: tuple[HostTime, ...]
    steps: int
    """How many steps all of them recorded."""
    slowdown: float
    """The mean of the slowest host's time of each step, in times the mean of the hosts' median."""
    spread_seconds: float
    """The slowest host's time minus the hosts' median, on average."""
    usual_seconds: float
    """The mean of the hosts' median."""
    map: HostMap

    @property
    def slow(self) -> HostTime | None:
        """The host that slows the others down, if there is one."""
        first = self.hosts[0]
        usual = float(np.median([host.median_seconds for host in self.hosts]))
        often = first.slowest >= OFTEN * self.steps
        return first if often and first.median_seconds > SLOW * usual else None

    @property
    def late(self) -> HostTime | None:
        """The host whose data all others wait for, if there is one: its step times need not differ from theirs."""
        loading = [host for host in self.hosts if host.loading_seconds is not None]
        if len(loading) <= 1:
            return None
        worst = max(loading, key=lambda host: (host.longest_loads, host.name))
        usual = float(np.median([host.loading_seconds for host in loading]))
        longer = (worst.loading_seconds or 0.0) - usual
        often = worst.longest_loads >= OFTEN * self.steps
        return worst if often and longer > HELD_UP * self.usual_seconds else None

    @property
    def culprit(self) -> HostTime | None:
        return self.slow or self.late

    @property
    def culprit_share(self) -> float:
        """The share of the steps in which the host that was last most often was the last."""
        return max(host.slowest for host in self.hosts) / self.steps

    @property
    def summary(self) -> str:
        head = f"{len(self.hosts)} hosts, {self.steps} steps: the slowest takes {self.slowdown:.4g} times the median"
        if self.slow is None and self.late is not None:
            share, took = self.late.longest_loads / self.steps, self.late.loading_seconds
            return (
                f"{head}; {self.late.name} loads data for longer than all others in {share:.0%} of them: {took:.4g} s"
            )
        if self.slow is None:
            return f"{head}; no host is slow throughout"
        share = self.slow.slowest / self.steps
        return f"{head}; {self.slow.name} is the slowest in {share:.0%} of them, by {self.slow.behind_seconds:.4g} s"

    def document(self) -> dict[str, Any]:
        return {
            "summary": self.summary,
            "steps": self.steps,
            "slowdown": self.slowdown,
            "spread_seconds": self.spread_seconds,
            "slow_host": self.slow.name if self.slow else None,
            "late_host": self.late.name if self.late else None,
            "slowest_share": self.culprit_share,
            "map": self.map.document(),
            "hosts": [
                {
                    "host": host.name,
                    "median_step_seconds": host.median_seconds,
                    "slowest_in_steps": host.slowest,
                    "behind_seconds": host.behind_seconds,
                    "loading_seconds": host.loading_seconds,
                    "longest_loads": host.longest_loads,
                }
                for host in self.hosts[:MAX_LISTED]
            ],
            "hosts_left_out": max(0, len(self.hosts) - MAX_LISTED),
        }


def host_times(entries: Entries, workers: Sequence[Worker]) -> HostTimes | None:
    """Compare the hosts; None if fewer than two recorded the same steps. A repeated step counts as it last was."""
    times = [(worker.name, *_step_seconds(entries, worker)) for worker in workers] if len(workers) > 1 else []
    most = max((len(step) for _, step, *_ in times), default=0)
    # a worker that ran for only a part of the job does not limit the comparison of the others to that part
    compared = [one for one in times if len(one[1]) >= max(FEWEST_STEPS, most // 2)]
    if len(compared) <= 1:
        return None
    common = reduce(partial(np.intersect1d, assume_unique=True), [step for _, step, *_ in compared])
    if len(common) < FEWEST_STEPS:
        return None
    table = np.stack([seconds[np.searchsorted(step, common)] for _, step, seconds, _ in compared])
    loads = np.stack([loading[np.searchsorted(step, common)] for _, step, _, loading in compared])
    records = np.count_nonzero(loads > 0, axis=1)
    longest_loads = np.where((loads == loads.max(axis=0)).sum(axis=0) == 1, loads.argmax(axis=0), -1)
    median, longest, last = np.median(table, axis=0), table.max(axis=0), table.argmax(axis=0)
    alone = (table == longest).sum(axis=0) == 1
    hosts = []
    for index, (name, *_) in enumerate(compared):
        mine = (last == index) & alone
        behind = float((longest - median)[mine].mean()) if mine.any() else 0.0
        loading = float(loads[index].mean()) if records[index] > 0 else None
        most_loads = int((longest_loads == index).sum())
        hosts.append(HostTime(name, float(np.median(table[index])), int(mine.sum()), behind, loading, most_loads))
    hosts.sort(key=lambda host: (-host.slowest * host.behind_seconds, -host.median_seconds, host.name))
    usual = float(median.mean())
    slowdown = float(longest.mean()) / usual if usual > 0 else 1.0
    drawn = host_map([name for name, *_ in compared], common, table)
    return HostTimes(tuple(hosts), len(common), slowdown, float((longest - median).mean()), usual, drawn)


def _step_seconds(
    entries: Entries, worker: Worker
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the steps of a worker that the next one follows, how long each took, and how long it loaded data.

    All times are by its own clock.
    """
    steps: list[NDArray[np.int64]] = []
    seconds: list[NDArray[np.float64]] = []
    loads: list[NDArray[np.float64]] = []
    for life in worker.lives:
        at = life.at[entries.kind[life.at] == Kind.STEP]
        number, took = entries.number[at], np.diff(entries.time[at])
        started = np.searchsorted(life.at[entries.kind[life.at] == Kind.JOB_START], at)
        follows = (np.diff(number) == 1) & (took >= 0) & (np.diff(started) == 0)
        steps.append(number[:-1][follows])
        seconds.append(took[follows])
        loads.append(_loading(entries, life.at, at)[:-1][follows] if len(at) else took)
    step, took = np.concatenate(steps), np.concatenate(seconds)
    unique, last = np.unique(step[::-1], return_index=True)
    return unique, took[::-1][last], np.concatenate(loads)[::-1][last]


def _loading(entries: Entries, own: NDArray[np.intp], steps: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return how long data were loaded in each step of a process, up to the start of the next one."""
    loading = own[np.isin(entries.kind[own], (Kind.DATA_LOADING_START, Kind.DATA_LOADING_END))]
    starts = entries.kind[loading] == Kind.DATA_LOADING_START
    pairs = np.flatnonzero(starts[:-1] & ~starts[1:])
    took = entries.time[loading[pairs + 1]] - entries.time[loading[pairs]]
    step = np.searchsorted(steps, loading[pairs]) - 1
    usable = (step >= 0) & (took > 0)
    spent: NDArray[np.float64] = np.bincount(step[usable], took[usable], len(steps)).astype(np.float64)
    return spent
