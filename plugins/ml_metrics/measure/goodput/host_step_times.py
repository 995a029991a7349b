"""Step times host by host: which worker is slower than the others, how often, and by how much.

A step's time on a host is the difference of two times by the host's own clock, so clocks need not agree.

If every step ends with a collective, all hosts take as long as the slowest one, and their step times do not show which
that is. The work of a host before the collective does: the loading of its data, as far as it is recorded.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ml_metrics.measure.goodput.log import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ml_metrics.measure.goodput.log import Entries
    from ml_metrics.measure.goodput.workers import Worker


MAX_HOSTS = 64
"""The hosts that are drawn: those that behave least like the others."""
MAX_COLUMNS = 100
MAX_LISTED = 256
"""The hosts that a report lists: a log may name very many."""
FEWEST_STEPS = 3
OFTEN = 0.5
"""A host slows the others down if it is the last one in at least this share of the steps."""


def host_map(names: Sequence[str], steps: NDArray[np.int64], seconds: NDArray[np.float64]) -> dict[str, Any]:
    """How much longer than the median of the hosts each host took, in percent, by spans of steps, as a document.

    The table of step times has a row for each host and a column for each step.
    """
    starts = np.unique(np.linspace(0, len(steps), min(MAX_COLUMNS, len(steps)), endpoint=False).astype(int))
    usual = np.median(seconds, axis=0)
    sums, all_usual = np.add.reduceat(seconds, starts, axis=1), np.add.reduceat(usual, starts)
    share = np.divide(sums, all_usual, out=np.ones_like(sums), where=all_usual > 0)
    percent = np.clip((share - 1) * 100, -1e6, 1e6)
    kept = np.sort(np.argsort(-np.abs(percent).max(axis=1), kind="stable")[:MAX_HOSTS])
    return {
        "hosts": [names[index][:100] for index in kept],
        "first_steps": steps[starts].tolist(),
        "last_step": int(steps[-1]),
        "percent": [[round(value, 2) for value in percent[index].tolist()] for index in kept],
        "hosts_left_out": len(names) - len(kept),
    }


class HostTime(NamedTuple):
    """The step times of one host, in the steps that all hosts recorded, as documents have them."""

    host: str
    median_step_seconds: float
    slowest_in_steps: int
    """In how many steps it was slower than all others."""
    behind_seconds: float
    """By how much it was slower than the median of the hosts in these steps, on average."""
    loading_seconds: float | None
    """How long it loaded data in a step, on average; None if that is not recorded."""
    longest_loads: int
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
    map: dict[str, Any]

    @property
    def slow(self) -> HostTime | None:
        """The host that slows the others down, if there is one: its median step takes 5 % longer than is usual."""
        first = self.hosts[0]
        usual = float(np.median([host.median_step_seconds for host in self.hosts]))
        return (
            first if first.slowest_in_steps >= OFTEN * self.steps and first.median_step_seconds > 1.05 * usual else None
        )

    @property
    def late(self) -> HostTime | None:
        """The host whose data all others wait for, if there is one: its step times need not differ from theirs.

        It loads data for longer than they do, by at least 5 % of a step.
        """
        loading = [host for host in self.hosts if host.loading_seconds is not None]
        if len(loading) <= 1:
            return None
        worst = max(loading, key=lambda host: (host.longest_loads, host.host))
        longer = (worst.loading_seconds or 0.0) - float(np.median([host.loading_seconds for host in loading]))
        return worst if worst.longest_loads >= OFTEN * self.steps and longer > 0.05 * self.usual_seconds else None

    @property
    def culprit_share(self) -> float:
        """The share of the steps in which the host that was last most often was the last."""
        return max(host.slowest_in_steps for host in self.hosts) / self.steps

    @property
    def summary(self) -> str:
        head = f"{len(self.hosts)} hosts, {self.steps} steps: the slowest takes {self.slowdown:.4g} times the median"
        if slow := self.slow:
            share = slow.slowest_in_steps / self.steps
            return f"{head}; {slow.host} is the slowest in {share:.0%} of them, by {slow.behind_seconds:.4g} s"
        if late := self.late:
            share, took = late.longest_loads / self.steps, late.loading_seconds
            return f"{head}; {late.host} loads data for longer than all others in {share:.0%} of them: {took:.4g} s"
        return f"{head}; no host is slow throughout"

    def document(self) -> dict[str, Any]:
        return {
            "summary": self.summary,
            "steps": self.steps,
            "slowdown": self.slowdown,
            "spread_seconds": self.spread_seconds,
            "slow_host": self.slow.host if self.slow else None,
            "late_host": self.late.host if self.late else None,
            "slowest_share": self.culprit_share,
            "map": self.map,
            "hosts": [host._asdict() for host in self.hosts[:MAX_LISTED]],
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
    median, longest = np.median(table, axis=0), table.max(axis=0)
    last, longest_loads = _alone_at_the_top(table), _alone_at_the_top(loads)
    hosts = []
    for index, (name, *_) in enumerate(compared):
        mine = last == index
        behind = float((longest - median)[mine].mean()) if mine.any() else 0.0
        loading = float(loads[index].mean()) if (loads[index] > 0).any() else None
        most_loads = int((longest_loads == index).sum())
        hosts.append(HostTime(name, float(np.median(table[index])), int(mine.sum()), behind, loading, most_loads))
    hosts.sort(key=lambda host: (-host.slowest_in_steps * host.behind_seconds, -host.median_step_seconds, host.host))
    usual = float(median.mean())
    slowdown = float(longest.mean()) / usual if usual > 0 else 1.0
    drawn = host_map([name for name, *_ in compared], common, table)
    return HostTimes(tuple(hosts), len(common), slowdown, float((longest - median).mean()), usual, drawn)


def _alone_at_the_top(table: NDArray[np.float64]) -> NDArray[np.intp]:
    """The row that alone has the largest value, for each column; -1 if several have it."""
    return np.where((table == table.max(axis=0)).sum(axis=0) == 1, table.argmax(axis=0), -1)


def _step_seconds(
    entries: Entries, worker: Worker
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the steps of a worker that the next one follows, how long each took, and how long it loaded data.

    All times are by its own clock.
    """
    rows = []
    for life in worker.lives:
        kind, time = entries.kind[life.at], entries.time[life.at]
        steps = np.flatnonzero(kind == Kind.STEP)
        number, took = entries.number[life.at[steps]], np.diff(time[steps])
        started = np.searchsorted(np.flatnonzero(kind == Kind.JOB_START), steps)
        follows = (np.diff(number) == 1) & (took >= 0) & (np.diff(started) == 0)
        loading = np.flatnonzero(np.isin(kind, (Kind.DATA_LOADING_START, Kind.DATA_LOADING_END)))
        begins = kind[loading] == Kind.DATA_LOADING_START
        pairs = np.flatnonzero(begins[:-1] & ~begins[1:])
        loaded = time[loading[pairs + 1]] - time[loading[pairs]]
        of_step = np.searchsorted(steps, loading[pairs]) - 1
        usable = (of_step >= 0) & (loaded > 0)
        loads: NDArray[Any] = np.bincount(of_step[usable], loaded[usable], len(steps))
        rows.append((number[:-1][follows], took[follows], loads[:-1][follows]))
    step, took, loads = (np.concatenate(column) for column in zip(*rows, strict=True))
    unique, last = np.unique(step[::-1], return_index=True)
    return unique, took[::-1][last], loads[::-1][last]
