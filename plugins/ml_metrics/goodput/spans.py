"""The spans in a log: events with a start and an end that held training up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.goodput.entries import Entries, Kind
from ml_metrics.goodput.time_buckets import CUSTOM_PREFIX, Bucket

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ml_metrics.goodput.segments import Segments
_CHECKPOINT_BUCKETS = {
    int(Kind.SAVE): Bucket.UNPRODUCTIVE_CHECKPOINT_SAVE_TIME,
    int(Kind.RESTORE): Bucket.UNPRODUCTIVE_CHECKPOINT_RESTORE_TIME,
}


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A period that was spent on one thing."""

    start: float
    end: float
    label: str


@dataclass(frozen=True, slots=True)
class Spans:
    """All spans of a log."""

    spans: tuple[Span, ...]
    loads: tuple[NDArray[np.float64], NDArray[np.float64]]
    """The starts and ends of all data loading, whether it held training up or not."""
    unpaired: int
    """Starts without an end, and ends without a start."""


def find_spans(entries: Entries, segments: Segments) -> Spans:
    """Find the spans in entries that are in order of time."""
    found: list[Span] = []
    unpaired = 0
    for label, start in (
        (Bucket.TPU_INITIALIZATION, Kind.TPU_INIT_START),
        (Bucket.TRAINING_PREP, Kind.TRAINING_PREP_START),
        (Bucket.ELASTIC_REINITIALIZATION, Kind.ELASTIC_REINIT_START),
    ):
        starts, ends, left = _pairs(entries, start)
        unpaired += left
        found += [Span(low, high, label) for low, high in zip(starts.tolist(), ends.tolist(), strict=True)]
    loads = _pairs(entries, Kind.DATA_LOADING_START)
    found += _blocking_loads(loads[0], loads[1], segments)
    found += _checkpoints(entries)
    custom, custom_left = _named_pairs(entries, Kind.CUSTOM_START)
    found += [Span(low, high, f"{CUSTOM_PREFIX}{name}") for low, high, name in custom]
    waits, waits_left = _named_pairs(entries, Kind.ELASTIC_WAIT_START)
    for low, high, name in waits:
        found.append(Span(low, high, Bucket.ELASTIC_SCALE_UP if "SCALE_UP" in name else Bucket.ELASTIC_SLICE_DOWN))
    return Spans(tuple(found), (loads[0], loads[1]), unpaired + loads[2] + custom_left + waits_left)


def _pairs(entries: Entries, start: Kind) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
    """Return the starts and ends of one kind. Of consecutive starts the last counts, of consecutive ends the first."""
    at = entries.where(start, Kind(start + 1))
    starts = entries.kind[at] == start
    closed = np.flatnonzero(starts[:-1] & ~starts[1:])
    return entries.time[at[closed]], entries.time[at[closed + 1]], len(at) - 2 * len(closed)


def _named_pairs(entries: Entries, start: Kind) -> tuple[list[tuple[float, float, str]], int]:
    """Pair the events of each name separately. Names are not case-sensitive."""
    open_since: dict[str, float] = {}
    pairs = []
    left = 0
    upper = [name.upper() for name in entries.names]
    at = entries.where(start, Kind(start + 1))
    rows = zip(entries.kind[at].tolist(), entries.time[at].tolist(), entries.number[at].tolist(), strict=True)
    for kind, time, number in rows:
        name = upper[number]
        if kind == start:
            left += name in open_since
            open_since[name] = time
        elif name in open_since:
            pairs.append((open_since.pop(name), time, name))
        else:
            left += 1
    return pairs, left + len(open_since)


def _blocking_loads(starts: NDArray[np.float64], ends: NDArray[np.float64], segments: Segments) -> Iterator[Span]:
    """Yield the first load before each segment's first step. All other loading happens while steps run."""
    since = -np.inf
    for segment in segments.segments:
        first = int(np.searchsorted(starts, since, "left"))
        if first < len(starts) and starts[first] < segment.time[0]:
            yield Span(float(starts[first]), float(ends[first]), Bucket.DATA_LOADING_SYNC)
        since = float(segment.time[-1]) if segment.restart is None else segment.restart
    if not segments.segments and len(starts):
        yield Span(float(starts[0]), float(ends[0]), Bucket.DATA_LOADING_SYNC)


def _checkpoints(entries: Entries) -> Iterator[Span]:
    """Yield saves and restores. Reports of several workers about the same one count once, with their mean duration.

    Those of one worker do not overlap, as when Lightning saves a step under its own name and as the last one.
    """
    if not entries.checkpoints:
        return
    same: dict[tuple[int, str, bool, int], list[tuple[float, float]]] = {}
    job_starts = np.cumsum(entries.kind == Kind.JOB_START)
    for at in entries.where(Kind.SAVE, Kind.RESTORE).tolist():
        checkpoint = entries.checkpoints[entries.number[at]]
        start = entries.time[at] if checkpoint.start is None else checkpoint.start - entries.origin
        key = (int(entries.kind[at]), checkpoint.step, checkpoint.remote, int(job_starts[at]))
        same.setdefault(key, []).append((float(start), checkpoint.seconds))
    for (kind, *_), reports in same.items():
        for about_one in _overlapping(reports):
            start = about_one[0][0]
            seconds = sum(seconds for _, seconds in about_one) / len(about_one)
            if seconds > 0:
                yield Span(start, start + seconds, _CHECKPOINT_BUCKETS[kind])


def _overlapping(reports: list[tuple[float, float]]) -> Iterator[list[tuple[float, float]]]:
    """Yield reports, each a start and its seconds, in groups that overlap in time."""
    group: list[tuple[float, float]] = []
    end = -np.inf
    for start, seconds in sorted(reports):
        if group and start >= end:
            yield group
            group = []
        group.append((start, seconds))
        end = max(end, start + seconds)
    yield group
