"""Where a trouble may have begun: the first bad run of the row that ends with this one, and what changed there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ml_metrics import storage
from ml_metrics.errors import MlMetricsError
from ml_metrics.run_folder import RunFolder

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ml_metrics.model import Run
    from ml_metrics.reports.past import TestPast

TEST_FILE = frozenset({"env", "secrets", "params"})
"""Keys of a test file whose values are not told: they may hold what is nobody else's business."""
LONGEST = 80


@dataclass(frozen=True, slots=True)
class Row:
    """Runs in a row that were broken in the same way."""

    first_bad: str
    """The key of the first of them; this run's own if it is the only one."""
    last_good: str
    """The key of the run before it; empty if there is none."""
    length: int


def row_before(this: str, runs: Sequence[tuple[str, bool]]) -> Row:
    """The row of broken runs that ends with `this`, which is broken and is not among `runs` (oldest first)."""
    first, length = this, 1
    for key, broken in reversed(runs):
        if not broken:
            return Row(first, key, length)
        first, length = key, length + 1
    return Row(first, "", length)


def suspects(run: Run, folder: RunFolder, past: TestPast, rows: Iterable[tuple[str, Row]]) -> tuple[str, ...]:
    """A sentence for each row, told once for all troubles that share it."""
    named: dict[Row, list[str]] = {}
    for name, row in rows:
        named.setdefault(row, []).append(name)
    return tuple(_sentence(row, names, run, folder, past) for row, names in named.items())


def _sentence(row: Row, names: list[str], run: Run, folder: RunFolder, past: TestPast) -> str:
    what = ", ".join(names)
    times = {job.uuid: f"{job.timestamp:%Y-%m-%d %H:%M}" for job in past.jobs}
    if row.first_bad == run.key:
        begun = f"{what}: this run is the first bad one"
    else:
        begun = f"{what}: {row.length} bad runs in a row, first {_named(row.first_bad, times)}"
    if not row.last_good:
        return f"{begun}; there is no good run before it"
    changed = _changes(row, folder, past)
    return f"{begun}; the last good one was {_named(row.last_good, times)}. " + (
        f"Changed in between: {'; '.join(changed)}" if changed else "Nothing that is recorded changed in between"
    )


def _named(key: str, times: dict[str, str]) -> str:
    return f"run {key[:8]} of {times[key]}" if key in times else f"run {key[:8]}"


def _changes(row: Row, folder: RunFolder, past: TestPast) -> list[str]:
    before, after = (_described(key, folder, past) for key in (row.last_good, row.first_bad))
    changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    return [_change(name, before.get(name), after.get(name)) for name in changed if name in before and name in after]


def _change(name: str, before: object, after: object) -> str:
    if name.removeprefix("test file ") in TEST_FILE:
        return f"{name} (values not shown)"
    return f"{name}: {_cut(before)} → {_cut(after)}"


def _cut(value: object) -> str:
    text = " ".join(str("none" if value in (None, "") else value).split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _described(key: str, folder: RunFolder, past: TestPast) -> dict[str, object]:
    """What is known of a run: what the warehouse holds, and its folder, if that is still there."""
    job = next((job for job in past.jobs if job.uuid == key), None)
    row = {"image": job.image, "accelerator": job.accelerator, "framework": job.framework_version} if job else {}
    parent, _, _ = folder.path.rstrip("/").rpartition("/")
    return {**row, **_from_folder(RunFolder(storage.join(parent, key)))}


def _from_folder(folder: RunFolder) -> dict[str, object]:
    try:
        workload, identity = folder.read_workload(), folder.read("run") or {}
    except (MlMetricsError, KeyError, ValueError):  # a folder that is damaged tells nothing
        return {}
    ran = {"image": workload.image, "image digest": workload.image_digest} if workload else {}
    file, params = (identity.get(name) for name in ("test_file", "params"))
    said = {f"test file {name}": value for name, value in file.items()} if isinstance(file, dict) else {}
    given = {f"parameter {name}": value for name, value in params.items()} if isinstance(params, dict) else {}
    return {**ran, **given, **{name: value for name, value in said.items() if name != "test file image"}}
