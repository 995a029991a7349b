"""How a run recovered from its planned faults, by its own steps, and whether its loss went on where it was."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.core.faults import RECOVERY, FaultState
from ml_metrics.core.model import JobStatus, Metric, Series
from ml_metrics.core.units import readable
from ml_metrics.measure.source import COMPUTED, Found

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from ml_metrics.config.collection import MetricCollectionConfig
    from ml_metrics.core.faults import FaultJournal, PlannedFault
    from ml_metrics.core.limits import Limits
    from ml_metrics.core.model import Workload
    from ml_metrics.measure.goodput.log import Entries
    from ml_metrics.store.storage import File

COMPARED_POINTS = 5
"""How many losses after a restart are compared with those before."""
FEWEST_POINTS = 8


@dataclass(frozen=True, slots=True)
class Steps:
    """When each step of a run started, and what else its log tells, by time."""

    times: list[float]
    numbers: list[int]
    job_starts: list[float]
    restores: list[tuple[float, float]]
    """From when to when a checkpoint was restored."""

    def before(self, moment: float) -> int:
        """How many steps had started."""
        return bisect_left(self.times, moment)


@dataclass(frozen=True, slots=True)
class FaultFigures:
    """What one fault cost. Durations are in seconds, None where they are not known."""

    number: int
    at: str
    what: str
    hosts: tuple[int, ...]
    state: str
    begun_at: float | None = None
    late: float | None = None
    """How much later than it was due it was inflicted."""
    step: int | None = None
    """The highest step that had started."""
    noticed: float | None = None
    """Until the attempt ended."""
    restarted: float | None = None
    """Until the program started again."""
    recovered: float | None = None
    """Until the first step beyond the highest before."""
    steps_lost: int | None = None
    """The steps that were complete, and were computed again."""
    recomputed: float | None = None
    """How long that took."""
    goodput_lost: float | None = None
    """How much later that first step began than it would have without the fault."""
    restoring: float | None = None
    """How much of the recovery was spent on restoring a checkpoint."""
    loss_jump: str = ""
    """How the loss did not go on where it was; empty if it did, or if that is not known."""
    survived: bool = False
    note: str = ""


def measure_faults(
    journal: FaultJournal,
    files: Sequence[File],
    series: Sequence[Series],
    workload: Workload | None,
    config: MetricCollectionConfig,
    limits: Limits | None = None,
) -> tuple[tuple[FaultFigures, ...], Found]:
    """Return what each fault cost, and the metrics of the run."""
    from ml_metrics.measure.goodput.log import EntriesInMemory, read_log
    from ml_metrics.measure.goodput.report import is_log
    from ml_metrics.measure.readers.printed_steps import printed_steps

    logs = [file for file in files if is_log(file)]
    entries = read_log(logs, limits=limits) if logs else None
    found = printed_steps(files, config.sources.logs, workload, limits) if workload is not None and not logs else None
    if found and found.entries:
        entries = EntriesInMemory(found.entries).read()
        step, time, loss = np.array(found.losses).T
        series = [Series(".", "loss", step.astype(np.int64), time, loss), *series]
    steps = steps_of(entries, series)
    succeeded = workload is not None and workload.status is JobStatus.SUCCESS
    losses = _losses(series)
    figures = tuple(_figures(journal, fault, steps, losses, succeeded=succeeded) for fault in journal.faults)
    warnings = [
        f"the fault {one.what} ({one.at}) was not inflicted: {one.note}" for one in figures if one.state != "done"
    ]
    warnings += [f"after the fault {one.what} ({one.at}), {one.loss_jump}" for one in figures if one.loss_jump]
    ended_at = workload.ended_at.timestamp() if workload and workload.ended_at else None
    values = dict(_values(figures, has_losses=losses is not None))
    metrics = [
        Metric(name, float(value), tag=name, strategy=COMPUTED, wall_time=ended_at) for name, value in values.items()
    ]
    why = next((f"{one.what} ({one.at}): {_why_unknown(one)}" for one in figures if one.recovered is None), "")
    missing = {name: why for name in (RECOVERY, f"{RECOVERY}_max") if name not in values}
    return figures, Found(metrics=metrics, warnings=warnings, missing=missing)


def _why_unknown(one: FaultFigures) -> str:
    if one.state != FaultState.DONE:
        return f"the fault was not inflicted: {one.note}"
    if one.step is None:
        return (
            "no step of the run is known: write a goodput log, JSON lines with `step` and `time`, or a log with times "
            "whose `sources.logs.profile` is stated"
        )
    return f"the run did not get beyond step {one.step}, which it had reached before"


def _values(figures: Sequence[FaultFigures], *, has_losses: bool) -> Iterator[tuple[str, float]]:
    yield "faults_planned", len(figures)
    yield "faults_survived", sum(one.survived for one in figures)
    done = [one for one in figures if one.state == FaultState.DONE]
    recovered = [one.recovered for one in done if one.recovered is not None]
    if figures and len(recovered) == len(figures):  # a mean of some would hide the others
        yield RECOVERY, sum(recovered) / len(recovered)
        yield f"{RECOVERY}_max", max(recovered)
    for name, field, is_mean in (
        ("fault_notice_seconds", "noticed", True),
        ("fault_restart_seconds", "restarted", True),
        ("fault_restore_seconds", "restoring", True),
        ("fault_steps_lost", "steps_lost", False),
        ("fault_recomputed_seconds", "recomputed", False),
        ("fault_goodput_lost_seconds", "goodput_lost", False),
    ):
        known = [value for one in done if (value := getattr(one, field)) is not None]
        if known:
            yield name, sum(known) / (len(known) if is_mean else 1)
    if has_losses and done:
        yield "fault_loss_jumps", sum(bool(one.loss_jump) for one in done)


def _figures(
    journal: FaultJournal, fault: PlannedFault, steps: Steps, losses: Series | None, *, succeeded: bool
) -> FaultFigures:
    found = FaultFigures(fault.number, fault.at, fault.what, fault.hosts, str(fault.state), note=fault.note)
    begun = fault.begun_at
    if fault.state is not FaultState.DONE or begun is None:
        newest = max(steps.numbers, default=None)
        ended = "the run ended before" if newest is None else f"the run ended at step {newest}"
        return replace(found, note=fault.note or ended)
    late = None if fault.due_at is None else max(0.0, begun - fault.due_at)
    ends = [one.ended_at for one in journal.restarts if one.attempt == fault.attempt]
    # a workload may go on after a fault that lasts, until another one ends the attempt
    later = (one for one in journal.faults if one.attempt == fault.attempt and (one.begun_at or 0.0) > begun)
    goes_on = fault.lasts is not None and any(one.lasts is None for one in later)
    end = ends[0] if ends and not goes_on else None
    noticed = None if end is None else max(0.0, end - begun)
    started = next((one for one in steps.job_starts if one > begun), None) if end is not None else None
    found = replace(
        found, begun_at=begun, late=late, noticed=noticed, restarted=None if started is None else started - begun
    )
    # steps after SIGTERM, or before a lasting fault is over, are no recovery
    over = fault.ends_at or fault.done_at or begun
    cut = over if end is None else started or end + 1  # ends are known to the second
    known = steps.before(cut)
    if not known:
        return replace(found, survived=succeeded)
    highest = max(steps.numbers[:known])
    at = next((at for at in range(known, len(steps.times)) if steps.numbers[at] > highest), None)
    found = replace(found, step=highest, survived=succeeded or at is not None)
    if at is None:
        return found
    recovered = steps.times[at]
    base = (steps.before(begun) if end is None else known) or known  # a fault that lasts slows the steps in its time
    last = max(range(base), key=lambda one: (steps.numbers[one], steps.times[one]))
    lost = recovered - steps.times[last] - _usual_step(steps, base) * (steps.numbers[at] - steps.numbers[last])
    restoring = sum(
        min(stop, recovered) - max(start, begun) for start, stop in steps.restores if stop > begun and start < recovered
    )
    again = _computed_again(steps, known, at, highest) if end is not None else (0, 0.0)
    return replace(
        found,
        recovered=recovered - begun,
        steps_lost=again[0],
        recomputed=again[1],
        goodput_lost=max(0.0, lost),
        restoring=restoring if steps.restores else None,
        loss_jump=_loss_jump(losses, cut) if losses is not None and end is not None else "",
    )


def _usual_step(steps: Steps, known: int) -> float:
    """The median time of a step before the fault, from one to the next."""
    times, numbers = steps.times[:known], steps.numbers[:known]
    pairs = zip(times, times[1:], numbers, numbers[1:], strict=False)
    return median([(later - sooner) / (b - a) for sooner, later, a, b in pairs if b > a] or [0.0])


def _computed_again(steps: Steps, known: int, until: int, highest: int) -> tuple[int, float]:
    """How many complete steps were computed once more, and how long that took."""
    again = list(zip(steps.times[known:until], steps.numbers[known:until], strict=True))
    if not again:
        return 0, 0.0
    begin, number = min(again, key=lambda one: (one[1], one[0]))
    end = max((time for time, of in again if of == highest), default=steps.times[until])
    return max(0, highest - number), max(0.0, end - begin)


def _losses(series: Sequence[Series]) -> Series | None:
    """The loss of the training, with most points if there are several."""

    def is_training(name: str) -> bool:
        others = ("val", "eval", "test", "scale", "aux")  # losses that do not continue from step to step
        return "loss" in name.rpartition("/")[2] and not any(word in name for word in others)

    return max((one for one in series if is_training(one.tag.lower())), key=len, default=None)


def _loss_jump(losses: Series, restart: float) -> str:
    """Whether the first losses after a restart are worse than those before, beyond what differs from step to step.

    That is six times the median difference between neighbours.
    """
    usable = np.isfinite(losses.value) & np.isfinite(losses.wall_time)
    step, time, value = losses.step[usable], losses.wall_time[usable], losses.value[usable]
    order = np.argsort(time, kind="stable")
    step, time, value = step[order], time[order], value[order]
    before, after = time <= restart, time > restart  # a program may compute on after SIGTERM
    if before.sum() < FEWEST_POINTS or not after.any():
        return ""
    noise = float(np.median(np.abs(np.diff(value[before][-4 * FEWEST_POINTS :]))))
    later, later_steps = value[after][:COMPARED_POINTS], step[after][:COMPARED_POINTS]
    known = dict(zip(step[before].tolist(), value[before].tolist(), strict=True))
    same = [
        (new, known[number])
        for number, new in zip(later_steps.tolist(), later.tolist(), strict=True)
        if number in known
    ]
    if same:
        new, old = (float(np.mean(column)) for column in zip(*same, strict=True))
    else:
        new, old = float(np.mean(later)), float(np.mean(value[before][-COMPARED_POINTS:]))
    if new - old <= 6 * max(noise, 1e-9 * abs(old)):
        return ""
    was, now = readable([old, new])
    return f"{losses.tag} went on at {now}, where it was {was} before: the checkpoint may be restored wrongly"


def steps_of(entries: Entries | None, series: Sequence[Series]) -> Steps:
    """The steps of a goodput log, and of the losses or the longest series, whose points are at the ends of steps.

    A recorder that is killed may not have written its last steps; a program that prints each loss has.
    """
    from ml_metrics.measure.goodput.log import Kind

    timed = [
        one for one in series if len(one) > 1 and np.isfinite(one.wall_time).all() and len(np.unique(one.step)) > 1
    ]
    longest = _losses(timed) or max(timed, key=len, default=None)
    points = np.empty((0, 2)) if longest is None else np.column_stack([longest.wall_time, longest.step + 1.0])
    points = points[np.argsort(points[:, 0], kind="stable")]
    if entries is None or not len(at := entries.where(Kind.STEP)):
        return _by_time(np.concatenate([points, _first_starts(points)]), [], [])
    starts = np.column_stack([entries.time[at], entries.number[at].astype(np.float64)])
    starts = starts[np.argsort(starts[:, 0], kind="stable")]
    jobs = np.sort(entries.time[entries.where(Kind.JOB_START)]).tolist()
    if len(points):
        near = starts[np.clip(np.searchsorted(starts[:, 0], points[:, 0], "right") - 1, 0, None), 1]
        if np.median(np.abs(near - points[:, 1])) <= 1:  # they count the same steps
            starts = np.concatenate([starts, points])
    return _by_time(starts, jobs, _restores(entries))


def _by_time(starts: NDArray[np.float64], jobs: list[float], restores: list[tuple[float, float]]) -> Steps:
    starts = starts[np.argsort(starts[:, 0], kind="stable")]
    return Steps(starts[:, 0].tolist(), starts[:, 1].astype(np.int64).tolist(), jobs, restores)


def _first_starts(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """The starts of the first steps of each attempt, where only the ends of steps are known."""
    if not len(points):
        return points
    forward = np.diff(points[:, 1]) > 0
    seconds = np.diff(points[:, 0])[forward]
    first = points[np.concatenate([[True], ~forward])]
    earlier: NDArray[np.float64] = first - [float(np.median(seconds)) if len(seconds) else 0.0, 1.0]
    return earlier


def _restores(entries: Entries) -> list[tuple[float, float]]:
    from ml_metrics.measure.goodput.log import Kind
    from ml_metrics.measure.goodput.timeline import named_pairs

    own = (entries.checkpoints[int(entries.number[at])] for at in entries.where(Kind.RESTORE))
    events = named_pairs(entries, Kind.CUSTOM_START)[0]
    return [
        *((one.start, one.start + one.seconds) for one in own if one.start is not None),
        *((start, end) for start, end, name in events if "RESTOR" in name),
    ]
