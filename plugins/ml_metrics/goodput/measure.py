"""Measuring goodput: from a log to its report, for operators and the command line."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ml_metrics.goodput.analysis import analyse
from ml_metrics.goodput.log_files import Log, is_log, log_files, read_log
from ml_metrics.goodput.log_sources import LogSource
from ml_metrics.goodput.report_builder import build_report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ml_metrics import storage
    from ml_metrics.goodput.report import GoodputReport


def measure(  # noqa: PLR0913  (independent options)
    files: Sequence[storage.File] | str | LogSource,
    *,
    ideal_step_time: float | None = None,
    windows: Sequence[float] = (),
    start: float | None = None,
    end: float | None = None,
    until: float | None = None,
    job_name: str | None = None,
) -> GoodputReport:
    """Report how the time of a job was spent.

    Args:
        files: The files of a run folder, of which those of the goodput log are read; or the place of a log or folder;
            or another source of entries, such as `ml_metrics.cloud.CloudLogger`.
        ideal_step_time: How long a step should take, in seconds; computed from the steps if None.
        windows: The sizes in seconds of rolling windows, which end when the job does.
        start: Only count the time from here on, in seconds since 1970.
        end: Only count the time up to here.
        until: When the job ended, if it recorded no end; by default at its last entry.
        job_name: Entries of other jobs are left out. Default: the job of the first entry.

    Returns:
        A report. Its `found` is False if there is no log, or no usable entry in it.
    """
    log = _log(files, job_name)
    analysis = analyse(log.entries, until=until)
    if len(log.entries) and not analysis.ended:
        end_used = "its last entry" if until is None else "its workload ended"
        no_end = f"the job recorded no end: it is taken to have run until {end_used}, and its last step does not count"
        analysis = replace(analysis, warnings=(*analysis.warnings, no_end))
    return build_report(
        analysis, files=log.files, ideal_step_time=ideal_step_time, windows=windows, start=start, end=end
    )


def _log(files: Sequence[storage.File] | str | LogSource, job_name: str | None) -> Log:
    if isinstance(files, LogSource):
        entries = files.read()
        return Log(entries, 1 if len(entries) else 0)
    return read_log(log_files(files) if isinstance(files, str) else [file for file in files if is_log(file)], job_name)
