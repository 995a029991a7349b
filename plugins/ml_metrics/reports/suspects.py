"""When a problem started: the first failed run, what changed there, and an earlier change of a metric's level."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ml_metrics import storage
from ml_metrics.config.threshold import MinChange
from ml_metrics.config.trial import NOTIFY, TRIAL
from ml_metrics.errors import MlMetricsError
from ml_metrics.judge.attributes import FIRST, change_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ml_metrics.model import Run, StoredMetric
    from ml_metrics.reports.metric import MetricHistory, TestHistory
    from ml_metrics.reports.streak import Streak
    from ml_metrics.run_folder import RunFolder


PARAMETER = "param."
"""How the metadata of a run names its parameters."""


SMALLEST_SUSPECT = MinChange(percent=1)
"""Smaller changes of a level explain no failure."""


def suspects(
    run: Run, folder: RunFolder, history: TestHistory, streaks: Iterable[tuple[str, Streak]]
) -> tuple[str, ...]:
    """Return a sentence for each streak; problems with the same streak share it."""
    names: dict[Streak, list[str]] = {}
    for name, streak in streaks:
        names.setdefault(streak, []).append(name)
    return tuple(_sentence(streak, ", ".join(each), run, folder, history) for streak, each in names.items())


def level_change(
    now: StoredMetric, history: MetricHistory, first_failed: str, attributes: Mapping[str, Mapping[str, str]]
) -> str:
    """Return a sentence on the last change of the metric's level if it may have led to the failure; else empty.

    Such a change came before the first failed run, and not in the opposite direction of the value that failed.
    """
    from ml_metrics.judge.level_changes import changes_in

    changes = changes_in(
        [*history.points(), replace(now, outcome=None)], min_change=SMALLEST_SUSPECT, attributes=attributes
    )
    keys = [value.run_key for value in history.values]
    before = keys[: keys.index(first_failed)] if first_failed in keys else keys
    if not changes or changes[-1].run_key not in before:
        return ""
    rose, value = changes[-1].after > changes[-1].before, now.value
    opposite = value is not None and rose != (value > changes[-1].before)
    return "" if opposite else f"{now.metric}: {changes[-1]}"


def straggler(goodput: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return a sentence about the host that held the others up, if there is one."""
    hosts = (goodput or {}).get("host_step_times") or {}
    culprit = hosts.get("slow_host") or hosts.get("late_host")
    return (f"One host holds the others up: {hosts['summary']}",) if culprit else ()


def first_look(streak: Streak, run: Run, folder: RunFolder, history: TestHistory) -> str:
    """Return which run to look at first, and what changed between it and the last good one."""
    times = {job.uuid: f"{job.timestamp:%Y-%m-%d %H:%M}" for job in history.jobs}
    if streak.first_failed == run.key:
        look = "This run is the first bad one"
    else:
        look = f"Look at {_run(streak.first_failed, times)}, the first of {streak.length} bad ones in a row"
    if not streak.last_passed:
        return f"{look}; no earlier run is known to be good."
    between = f"between it and the last good one, {_run(streak.last_passed, times)},"
    changed = _changes(streak, folder, history)
    if not changed:
        return f"{look}; {between} nothing that is recorded changed: neither image nor parameters nor test file."
    return f"{look}; {between} this changed: {'; '.join(changed)}."


def _sentence(streak: Streak, names: str, run: Run, folder: RunFolder, history: TestHistory) -> str:
    times = {job.uuid: f"{job.timestamp:%Y-%m-%d %H:%M}" for job in history.jobs}
    if streak.first_failed == run.key:
        start = f"{names}: this run is the first that failed"
    else:
        start = f"{names}: failed in {streak.length} runs in a row, first in {_run(streak.first_failed, times)}"
    if not streak.last_passed:
        return f"{start}; no earlier run passed"
    changed = _changes(streak, folder, history)
    return f"{start}; the last that passed was {_run(streak.last_passed, times)}. " + (
        f"Changed in between: {'; '.join(changed)}" if changed else "No recorded change in between"
    )


def _run(key: str, times: dict[str, str]) -> str:
    return f"run {key[:8]} of {times[key]}" if key in times else f"run {key[:8]}"


def _changes(streak: Streak, folder: RunFolder, history: TestHistory) -> list[str]:
    before, after = (_properties(key, folder, history) for key in (streak.last_passed, streak.first_failed))
    return [
        change_text(name, before[name], after[name], "→")
        for name in sorted(before.keys() & after.keys())
        if before[name] != after[name]
    ]


def _properties(key: str, folder: RunFolder, history: TestHistory) -> dict[str, object]:
    """Return the attributes of a run from the warehouse and from its folder, if that still exists."""
    row = {_readable(name): value for name, value in history.attributes.get(key, {}).items()}
    parent, _, _ = folder.path.rstrip("/").rpartition("/")
    return {**row, **_recorded_in(replace(folder, path=storage.join(parent, key)))}


def _readable(attribute: str) -> str:
    """Return the name of an attribute as the run folder's properties are named."""
    if attribute.startswith(PARAMETER):
        return f"parameter {attribute.removeprefix(PARAMETER)}"
    return attribute.replace("_", " ") if attribute in FIRST else attribute


def _recorded_in(folder: RunFolder) -> dict[str, object]:
    try:
        workload, identity = folder.read_workload(), folder.read("run") or {}
    except (MlMetricsError, KeyError, ValueError):  # a damaged folder
        return {}
    images = {"image": workload.image, "image digest": workload.image_digest} if workload else {}
    file, params = (identity.get(name) for name in ("test_file", "params"))
    keys = {f"test file {name}": value for name, value in file.items()} if isinstance(file, dict) else {}
    keys.pop("test file image", None)  # the workload has the image that ran
    own = params if isinstance(params, dict) else {}
    given = {f"parameter {name}": value for name, value in own.items() if name not in {TRIAL, NOTIFY}}
    return {**images, **given, **keys}
