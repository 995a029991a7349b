"""The entries of a goodput log that follow from what a program printed: when each step began, and what was between.

A line that is printed at the end of a step, with its duration, tells when the step began. What is between the end of a
step and the beginning of the next, such as an evaluation or a checkpoint, is lost time of the type `between_steps`.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise, zip_longest
from statistics import median, mode
from typing import TYPE_CHECKING, Any

from ml_metrics.config.patterns import matches_file
from ml_metrics.core.limits import Allowance, Limits
from ml_metrics.core.values import nearest_year
from ml_metrics.measure.readers.log import readings_of
from ml_metrics.measure.readers.log_profiles import LOG_PROFILES, LOSS, STEP_TIME, TOKENS
from ml_metrics.measure.readings import Readings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ml_metrics.config.collection import Logs
    from ml_metrics.core.model import Workload
    from ml_metrics.measure.readers.log_profiles import Profile, Reading
    from ml_metrics.store import storage


ISO = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:[.,](\d{1,6}))?(Z|[+-]\d\d:?\d\d)?")
ABSL = re.compile(r"\b[IWEF](\d\d)(\d\d) (\d\d:\d\d:\d\d)\.(\d{1,6}) ")
"""The beginning of lines of absl, which have no year."""
QUARTER = 900.0
"""Zones differ from UTC by whole quarters of an hour."""
SLACK = 60.0
"""How far clocks of the cluster and of the container may differ, in seconds."""
LEAST_GAP, LEAST_GAP_SECONDS = 0.05, 0.1
"""The share of a step, and the time, below which the time to the next is a part of it."""
MOST_REPEATED = 0.2
"""Of the lines, how many may repeat a step: more are those of several hosts."""
BETWEEN = "between_steps"
MOST_INTERVAL = 10_000
Run = tuple["datetime", "datetime"]
"""When the first attempt of a workload started, and when the last one ended."""


@dataclass(slots=True)
class Printed:
    """The entries of a job, and why there are none."""

    entries: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    losses: list[tuple[int, float, float]] = field(default_factory=list)
    """The step of each loss, when it was printed, and its value."""


@dataclass(frozen=True, slots=True)
class _Line:
    step: int
    at: float
    loss: float
    seconds: float
    """The duration of one step; NaN if the program does not print it."""
    rate: float = math.nan
    """The tokens per second, which tell the duration of a program that does not print it."""

    @property
    def has_rate_alone(self) -> bool:
        """Whether the rate has to tell the duration."""
        return math.isnan(self.seconds) and 0 < self.rate < math.inf


def printed_steps(
    files: Sequence[storage.File], options: Logs, workload: Workload, limits: Limits | None, job: str = ""
) -> Printed:
    """Those of the logs whose profile the configuration names; none without one."""
    if options.profile is None:
        return Printed()
    logs = [file for file in files if matches_file(options.files, file.name)]
    return read_printed_steps(logs, LOG_PROFILES[options.profile], workload, Allowance(limits or Limits()), job)


def read_printed_steps(
    files: Sequence[storage.File], profile: Profile, workload: Workload, allowance: Allowance, job: str
) -> Printed:
    """The entries that the log with most lines of training gives.

    Times without a zone are in that zone in which they are between the start and the end of the workload.
    """
    found = Printed()
    if workload.started_at is None or workload.ended_at is None:
        return found
    start, end = workload.started_at.timestamp(), workload.ended_at.timestamp()
    run = (min((first for first, _ in workload.earlier), default=workload.started_at), workload.ended_at)
    logs = [_lines(file, profile, allowance, run) for file in files]
    name, lines = max(
        zip((file.name for file in files), logs, strict=True), key=lambda one: len(one[1]), default=("", [])
    )
    if not lines:
        return found
    steps = [line.step for line in lines]
    repeated = sum(step == before for before, step in pairwise(steps))
    if repeated > MOST_REPEATED * len(steps):
        found.warnings.append(f"{name}: no goodput: it has the lines of several hosts; write one log for each")
        return found
    shift = _shift(lines, run[0].timestamp(), end)
    if shift is None:
        found.warnings.append(f"{name}: no goodput: its times are not between the start and the end of the workload")
        return found
    shifted = [replace(line, at=line.at + shift) for line in _with_durations(lines)]
    starts = [first.timestamp() for first, _ in workload.earlier]
    found.losses = [(line.step, line.at, line.loss) for line in shifted]
    found.entries = [{"job_name": job, **entry} for entry in _entries(shifted, [*starts, start], end)]
    return found


def _lines(file: storage.File, profile: Profile, allowance: Allowance, run: Run) -> list[_Line]:
    readings = Readings(allowance)
    readings.begin(file)
    found = (_line(text, reading, run) for text, reading in readings_of(readings, profile))
    return [line for line in found if line is not None]


def _line(text: str, reading: Reading, run: Run) -> _Line | None:
    at = time_in(text, run)
    if at is None or reading.step is None:
        return None
    seconds, rate, loss = (reading.values.get(tag, math.nan) for tag in (STEP_TIME, TOKENS, LOSS))
    return _Line(reading.step, at, loss, seconds if seconds > 0 else math.nan, rate)


def _with_durations(lines: Sequence[_Line]) -> Sequence[_Line]:
    """Return lines with the duration of a step, for a program that prints tokens per second instead.

    Every step has the same number of tokens: that of most intervals, as validations and saves are in few of them. The
    rate of torchtitan does not count validations, whose time between two lines is thereby known.
    """
    tokens = [
        line.rate * (line.at - before.at) / (line.step - before.step)
        for before, line in pairwise(lines)
        if before.step < line.step and line.has_rate_alone
    ]
    if not tokens:
        return lines
    usual = median(tokens)
    return [replace(line, seconds=usual / line.rate) if line.has_rate_alone else line for line in lines]


def time_in(text: str, run: Run) -> float | None:
    """The time that a line states, in seconds since 1970; without a zone, as if it were in UTC."""
    try:
        if match := ISO.search(text):
            day, clock, fraction, zone = match.groups()
            return _utc(datetime.fromisoformat(f"{day}T{clock}.{(fraction or '0').ljust(6, '0')}{zone or '+00:00'}"))
        if match := ABSL.search(text):
            month, day, clock, fraction = match.groups()
            moment = nearest_year(f"{month}-{day}T{clock}.{fraction.ljust(6, '0')}+00:00", run)
            return None if moment is None else _utc(moment)
    except (ValueError, OverflowError):
        return None
    return None


def _utc(moment: datetime) -> float:
    return (moment.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(seconds=1)


def _shift(lines: Sequence[_Line], start: float, end: float) -> float | None:
    """Return by how much the times are off: whole quarters of an hour, of which the smallest that fits."""
    first, last = min(line.at for line in lines), max(line.at for line in lines)
    guess = -math.floor((last - end + SLACK) / QUARTER) * QUARTER
    for shift in sorted((0.0, guess - QUARTER, guess, guess + QUARTER), key=abs):
        if start - SLACK <= first + shift and last + shift <= end + SLACK:
            return shift
    return None


def _entries(lines: Sequence[_Line], starts: Sequence[float], end: float) -> Iterator[dict[str, Any]]:
    """Yield the starts of the job and of its steps, and what is between steps."""
    pending = sorted(starts)
    usual = mode([two.step - one.step for one, two in pairwise(lines)] or [1])
    before: _Line | None = None
    for line, following in zip_longest(lines, lines[1:]):
        while pending and pending[0] <= line.at:
            yield {"job_start_time": pending.pop(0)}
            before = None
        if before is not None and line.step == before.step:
            continue  # another host
        begins = _begins(line, before, usual if following is not None and following.step - line.step == usual else 1)
        gap = 0.0 if before is None else begins[0] - before.at
        if before is not None and gap > max(LEAST_GAP_SECONDS, LEAST_GAP * (line.at - begins[-1])):
            yield from _gap(before.at, begins[0])
        for number, begin in enumerate(begins):
            yield {"step_count": line.step - len(begins) + 1 + number, "step_start_time": begin}
        before = line
    if before is not None and end > before.at:
        yield from _gap(before.at, end)
    yield {"job_end_time": end}


def _begins(line: _Line, before: _Line | None, first: int) -> list[float]:
    """When each step began that a line covers: those since the line before, if it is not printed every step.

    The first line of an attempt covers as many as most lines, if it states their duration, and if the next one does,
    too: Megatron-LM and torchtitan print the very first step by itself, and then every tenth.
    """
    seconds = line.seconds
    if before is not None:
        steps = line.step - before.step if before.step < line.step else 1
        at_most = max(0.0, line.at - before.at) / steps
        seconds = at_most if math.isnan(seconds) else min(seconds, at_most)
    elif math.isnan(seconds):
        steps, seconds = 1, 0.0
    else:
        steps = max(1, min(first, line.step + 1))
    steps = min(steps, MOST_INTERVAL)
    return [line.at - seconds * (steps - number) for number in range(steps)]


def _gap(start: float, end: float) -> Iterator[dict[str, Any]]:
    named = {"custom_badput_event_type": BETWEEN}
    yield {"custom_badput_event_start_time": start, **named}
    yield {"custom_badput_event_end_time": end, **named}
