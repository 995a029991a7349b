"""The part of a log in a message: the last lines of the container that failed, and the error among them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.alerts.message import Log
from ml_metrics.logs.documents import failing_log, lines_of, read_logs
from ml_metrics.logs.errors import error_of
from ml_metrics.logs.text import cut

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ml_metrics.run_folder import RunFolder

SHOWN_LINES = 20
MAX_LINE_LENGTH = 300
MAX_ERROR_LENGTH = 100


def log_of(folder: RunFolder, attempt: int, number: int = SHOWN_LINES) -> Log | None:
    """Return the last lines of the container that failed in an attempt; None if no logs are listed."""
    logs = [log for log in read_logs(folder) if log.attempt == attempt]
    failing = failing_log(logs, attempt)
    if failing is None:
        note = next((f"There is no log of the {log.title}: {log.note}" for log in logs if log.note), "")
        return Log("The log", (), note) if note else None
    lines = tuple(cut(line, MAX_LINE_LENGTH) for line in lines_of(folder, failing, number))
    if not lines:
        return Log(f"The log of the {failing.title}", (), failing.note or "it is empty")
    count = "The last line" if len(lines) == 1 else f"The last {len(lines)} lines"
    error = cut(failing.error, MAX_ERROR_LENGTH) if failing.error else error_in(lines)
    return Log(f"{count} of the log of the {failing.title}", lines, failing.note, error)


def error_in(lines: Sequence[str]) -> str:
    """Return the last error that a log ends with; empty if no line looks like one."""
    for line in reversed(lines):
        if error := error_of(line.rstrip()):
            return cut(error, MAX_ERROR_LENGTH)
    return ""
