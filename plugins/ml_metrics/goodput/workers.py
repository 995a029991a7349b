"""The workers that wrote a log, each with all its lives: a worker that starts again is the same worker.

Clocks of hosts differ. Two writers whose entries alternate in the log ran at the same time. For others, the difference
of clocks that each answer would require decides: the smaller one is true. Two that ran at the same time began the same
steps with a nearly constant difference; if one followed the other, only the overlap of their times is due to their
clocks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.goodput.entries import Entries, Kind
from ml_metrics.goodput.interleaved import split
from ml_metrics.goodput.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

SAMPLE = 64
"""How many steps of two processes are compared, at the beginning and throughout."""
SHORT_OVERLAP = 0.1
"""Two writers without a common step ran one after the other if less of the shorter one overlaps."""
MAX_COMPARED = 100_000
"""How many pairs of processes are compared: a log may name thousands of hosts. Beyond that, each host is a worker."""
IN_TURNS = 0.5
"""Two writers that wrote in turns have more than this share of their entries between those of the other.

One that followed another has fewer there: in the order of the log none, and in that of times those of the overlap.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Life:
    """The entries of one process."""

    name: str
    host: str
    at: NDArray[np.intp]
    """The positions of its entries in the log, rising."""
    step: NDArray[np.int64]
    """Each step once, rising."""
    time: NDArray[np.float64]
    """When each step started for the last time, by the clock of this process."""
    first_time: NDArray[np.float64]
    """When each step started for the first time."""
    low: float
    high: float
    """The times of the first and the last entry."""
    ended: bool
    """Whether the job's end is recorded after the last step."""


@dataclass(frozen=True, slots=True, eq=False)
class Worker:
    """One worker: processes that ran one after the other."""

    lives: tuple[Life, ...]

    @property
    def name(self) -> str:
        """The name of its newest process."""
        return self.lives[-1].name

    @property
    def at(self) -> NDArray[np.intp]:
        """The positions of its entries, in the order of the log."""
        return np.sort(np.concatenate([life.at for life in self.lives]))


def workers_of(entries: Entries) -> tuple[list[Worker], bool]:
    """Return the workers of a log, and whether some were distinguished by their steps alone."""
    lives, guessed = _lives(entries)
    if len(lives) == 1:
        return [Worker(tuple(lives))], False
    workers: list[list[Life]] = []
    compared = 0
    for lives_of_host in _by_host(lives):
        compared += len(workers)
        candidates = workers if compared <= MAX_COMPARED else []
        before = [worker for worker in candidates if _continues(worker[-1], lives_of_host[0])]
        if before:
            max(before, key=lambda worker: worker[-1].high).extend(lives_of_host)
        else:
            workers.append(lives_of_host)
    return [Worker(tuple(worker)) for worker in workers], guessed and len(workers) > 1


def _by_host(lives: Iterable[Life]) -> list[list[Life]]:
    """Return the lives that follow each other on one host, the earliest host first."""
    chains: list[list[Life]] = []
    latest: dict[str, list[Life]] = {}
    for life in sorted(lives, key=lambda life: (life.low, life.at[0])):
        chain = latest.get(life.host) if life.host else None
        if chain is not None and _continues(chain[-1], life):
            chain.append(life)
        else:
            chains.append([life])
            latest[life.host] = chains[-1]
    return chains


def _lives(entries: Entries) -> tuple[list[Life], bool]:
    lives = []
    guessed = False
    for writer, at in _by_process(entries):
        parts = split(entries.kind[at], entries.time[at], entries.number[at])
        guessed = guessed or len(parts) > 1
        for index, part in enumerate(parts):
            suffix = f" ({index + 1})" if len(parts) > 1 else ""
            host = f"{writer.host}{suffix}" if writer.host else ""
            lives.append(_life(entries, at[part], f"{writer.name or 'the log'}{suffix}", host))
    return lives, guessed


def _by_process(entries: Entries) -> Iterator[tuple[Writer, NDArray[np.intp]]]:
    """Yield each process and the positions of its entries.

    Processes of one host that wrote into one file one after the other are lives of one worker, and stay together.
    """
    if entries.writer is None:
        yield (entries.writers or (Writer(),))[0], np.arange(len(entries))
        return
    groups: dict[tuple[str, str], int] = {}
    group_of = np.array([groups.setdefault((one.file, one.host), len(groups)) for one in entries.writers], np.int32)
    for at in _split(group_of[entries.writer]):
        pids = entries.writer[at]
        processes = _split(pids)
        writer = entries.writers[int(pids[-1])]
        if int((np.diff(pids) != 0).sum()) < len(processes):
            yield writer, at
            continue
        for part in processes:
            one = entries.writers[int(pids[part[0]])]
            yield replace(one, host=f"{one.host}/{one.pid}"), at[part]


def _split(values: NDArray[np.int32]) -> list[NDArray[np.intp]]:
    """Return the positions of each value."""
    order = np.argsort(values, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(values[order])) + 1)


def _life(entries: Entries, at: NDArray[np.intp], name: str, host: str) -> Life:
    kind, time = entries.kind[at], entries.time[at]
    of_steps = np.flatnonzero(kind == Kind.STEP)
    numbers, times = entries.number[at[of_steps]], time[of_steps]
    step, first = np.unique(numbers, return_index=True)
    _, last = np.unique(numbers[::-1], return_index=True)
    known = time[~np.isnan(time)]
    ends = np.flatnonzero(kind == Kind.JOB_END)
    return Life(
        name=name,
        host=host,
        at=at,
        step=step,
        time=times[::-1][last],
        first_time=times[first],
        low=float(known.min()) if len(known) else 0.0,
        high=float(known.max()) if len(known) else 0.0,
        ended=bool(len(ends)) and (not len(of_steps) or bool(ends[-1] > of_steps[-1])),
    )


def _continues(earlier: Life, later: Life) -> bool:
    """Return whether a process followed another, instead of running beside it."""
    gap = later.low - earlier.high
    same_host = bool(earlier.host) and earlier.host == later.host
    if not same_host and _wrote_in_turns(earlier, later):
        return False
    skew = _difference(earlier, later)
    if skew is None:
        shorter = min(earlier.high - earlier.low, later.high - later.low)
        return gap >= 0 or (not same_host and -gap <= SHORT_OVERLAP * shorter)
    if same_host:
        return gap >= 0
    if earlier.ended and (earlier.step[0], earlier.step[-1]) == (later.step[0], later.step[-1]):
        return False  # a job that has ended is not done again
    return -gap < skew


def _wrote_in_turns(earlier: Life, later: Life) -> bool:
    """Return whether most entries of each process stand between those of the other in the log.

    That shows two that ran side by side even if their clocks differ by more than the job took.
    """
    of_later = np.searchsorted(later.at, earlier.at[-1])
    of_earlier = len(earlier.at) - np.searchsorted(earlier.at, later.at[0])
    return bool(of_later > IN_TURNS * len(later.at) and of_earlier > IN_TURNS * len(earlier.at))


def _difference(earlier: Life, later: Life) -> float | None:
    """Return by how much the clocks of two processes differ if they ran side by side; None without a common step."""
    if not len(earlier.step) or not len(later.step):
        return None
    count = len(later.step)
    sample = np.unique(np.concatenate([np.arange(min(count, SAMPLE)), np.linspace(0, count - 1, SAMPLE).astype(int)]))
    found = np.minimum(np.searchsorted(earlier.step, later.step[sample]), len(earlier.step) - 1)
    common = earlier.step[found] == later.step[sample]
    differences = later.first_time[sample[common]] - earlier.time[found[common]]
    return float(abs(np.median(differences))) if len(differences) else None
