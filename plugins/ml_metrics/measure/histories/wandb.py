"""Weights & Biases' offline runs: `wandb/offline-run-*/run-*.wandb`."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.core.limits import Allowance
from ml_metrics.core.model import JobStatus
from ml_metrics.measure.histories.history import (
    History,
    PastRun,
    Reading,
    metrics_of,
    moment_of,
    require_no_warnings,
)
from ml_metrics.measure.protobuf import fields_of
from ml_metrics.measure.readers import wandb
from ml_metrics.measure.readers.registry import read_files
from ml_metrics.measure.readings import Readings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from ml_metrics.core.limits import Limits
    from ml_metrics.store import storage


RUN, EXIT = 17, 18
"""The fields of a record that state which run it is, and how it ended."""
RUN_ID, PROJECT, CONFIG, NAME, HOST, START = 1, 3, 4, 9, 13, 17
EXIT_CODE, RUNTIME = 1, 2
UPDATE, KEY, NESTED_KEY, VALUE = 1, 1, 2, 16
LONGEST_FACT = 200


def read(files: Sequence[storage.File], reading: Reading) -> Iterator[PastRun]:
    """Yield a run for each file. One without an end is left out: it may still be running, or was killed."""
    for file in files:
        run, end = _records(file, reading.limits)
        started = _time(run.get(START), file.path)
        if RUN_ID not in run or started is None:
            raise UnreadableInputError(f"{file.path}: states no run and no start; the file may be cut off")
        if end is None:
            reading.leave_out("has not ended")
            continue
        found = read_files(wandb.FORMAT, [file], Allowance(reading.limits))
        try:
            metrics = metrics_of(wandb.FORMAT.name, found, reading.limits, file.path)
        except UnreadableInputError:
            if _text(run, NAME) is None:
                raise
            reading.leave_out("has no metrics")
            continue
        yield PastRun(
            _text(run, RUN_ID) or "",
            _text(run, PROJECT) or "",
            moment_of(started.timestamp() + end.get(RUNTIME, 0), file.path),
            metrics,
            file.path,
            JobStatus.FAILURE if end.get(EXIT_CODE) else JobStatus.SUCCESS,
            started_at=started,
            metadata={"wandb/run_name": _text(run, NAME) or "", **dict(_config(run.get(CONFIG)))},
        )


def _records(file: storage.File, limits: Limits) -> tuple[dict[int, int | bytes], dict[int, int] | None]:
    """The newest record about the run, and that of its end."""
    readings = Readings(Allowance(limits))
    readings.begin(file)
    run: dict[int, int | bytes] = {}
    end: dict[int, int] | None = None
    with file.open() as opened:
        for record in wandb.records_of(readings, opened):
            try:
                for field, content in fields_of(record):
                    if field == RUN and isinstance(content, bytes):
                        run = dict(fields_of(content))
                    elif field == EXIT and isinstance(content, bytes):
                        end = {one: value for one, value in fields_of(content) if isinstance(value, int)}
            except ValueError as error:
                raise UnreadableInputError(f"{file.path}: a record cannot be decoded: {error}") from error
    require_no_warnings(readings)
    return run, end


def _text(run: dict[int, int | bytes], field: int) -> str | None:
    content = run.get(field)
    return content.decode(errors="replace") if isinstance(content, bytes) else None


def _time(content: int | bytes | None, where: str) -> datetime | None:
    if not isinstance(content, bytes):
        return None
    parts = dict(fields_of(content))
    seconds, nanoseconds = parts.get(1), parts.get(2, 0)
    if not isinstance(seconds, int) or not isinstance(nanoseconds, int):
        return None
    return moment_of(seconds, where) + timedelta(microseconds=nanoseconds // 1000)


def _config(content: int | bytes | None) -> Iterator[tuple[str, str]]:
    """Yield the short values of the run's config, without what W&B adds itself."""
    for field, item in fields_of(content) if isinstance(content, bytes) else ():
        parts = dict(fields_of(item)) if field == UPDATE and isinstance(item, bytes) else {}
        key, value = parts.get(KEY) or parts.get(NESTED_KEY), parts.get(VALUE)
        if not isinstance(key, bytes) or not isinstance(value, bytes) or key.startswith(b"_"):
            continue
        if len(value) <= LONGEST_FACT:
            text = value.decode(errors="replace")
            yield f"wandb/config/{key.decode(errors='replace')}", text.strip('"')


HISTORY = History("wandb", wandb.FORMAT.claims, read, one_each=True)
