"""MLflow: its database, `mlflow.db`, and its older file store, `mlruns/EXPERIMENT/RUN/metrics/KEY`.

1790000000000 2.5 0
1790000001000 2.25 1
1790000002000 nan 2
"""

from __future__ import annotations

import math
import sqlite3
import sys
from contextlib import closing
from typing import TYPE_CHECKING

from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.core.limits import LimitReachedError
from ml_metrics.measure.points import step_of
from ml_metrics.measure.readers.format import Format
from ml_metrics.measure.text import number_in

if TYPE_CHECKING:
    from ml_metrics.measure.readers.format import Beginning
    from ml_metrics.measure.readings import Readings


FOLDER = "metrics/"
FIRST_MS, LAST_MS = 10**11, 10**14
FEWEST_WORDS, MOST_WORDS = 3, 5


def is_metric(file: Beginning) -> bool:
    run, key = _parts(file.name)
    # the metrics of models, which lie beside runs, repeat those of a run
    return bool(key) and "/models/" not in f"/{run}/" and _point(file.head.partition(b"\n")[0]) is not None


def read(found: Readings) -> None:
    run, key = _parts(found.lines.file.name)
    found.in_folder(run or ".")
    found.lines.check = _incomplete  # a step may have been cut short
    for line in found.numbered_lines():
        point = _point(line)
        if point is not None:
            found.point(key, *point)
        elif line:
            found.lines.reject("not a time, a value and a step", line)


def _parts(name: str) -> tuple[str, str]:
    """The folder of the run, and the metric's key, which may have slashes."""
    before, metrics, key = f"/{name}".partition(f"/{FOLDER}")
    return (before.removeprefix("/"), key) if metrics else ("", "")


def _point(line: bytes) -> tuple[int, float, float] | None:
    words = line[:200].decode(errors="replace").split()
    if not FEWEST_WORDS <= len(words) <= MOST_WORDS:
        return None
    time, value, step = (number_in(word) for word in words[:3])
    whole = None if step is None or not math.isfinite(step) else step_of(step)
    if time is None or value is None or whole is None or not FIRST_MS <= time < LAST_MS:
        return None
    return whole, time / 1e3, value


def _incomplete(_rest: bytes) -> None:
    raise ValueError("no line end")


SQLITE, LARGEST = b"SQLite format 3\0", sys.float_info.max
"""The database holds the largest float for infinity."""
INSTRUCTIONS = 100_000
ROWS = """
    SELECT run_uuid, key, value, is_nan, timestamp, step FROM metrics
    WHERE run_uuid IN (SELECT run_uuid FROM runs WHERE lifecycle_stage = 'active') ORDER BY timestamp, rowid
"""


def read_database(found: Readings) -> None:
    """A workload wrote the database: it is read from memory, its views are not, and no statement takes forever."""
    data = found.content(found.allowance.limits.json_bytes)

    def is_late() -> bool:
        try:
            found.allowance.read()
        except LimitReachedError:
            return True
        return False

    before = found.folder
    try:
        with closing(sqlite3.connect(":memory:")) as database:
            database.set_progress_handler(is_late, INSTRUCTIONS)
            database.deserialize(data)
            database.execute("PRAGMA trusted_schema = OFF")
            tables = database.execute(
                "SELECT sql FROM sqlite_master WHERE type = 'table' AND name IN ('metrics', 'runs')"
            )
            if [str(sql)[:12].upper() for (sql,) in tables] != ["CREATE TABLE"] * 2:
                raise UnreadableInputError("has no tables of metrics and runs")
            for run, key, value, is_nan, time, step in database.execute(ROWS):
                number = math.nan if is_nan else math.copysign(math.inf, value) if abs(value) == LARGEST else value
                found.in_folder(f"{before}/{run}".removeprefix("./"))
                found.point(str(key), int(step), time / 1e3, float(number))
    except sqlite3.Error as error:
        raise UnreadableInputError(f"is no whole database: {error}") from error


FORMAT = Format("mlflow", (b" ",), read, is_metric)
DATABASE = Format(
    "mlflow-database", (SQLITE, b"latest_metrics"), read_database, lambda file: file.head.startswith(SQLITE)
)
