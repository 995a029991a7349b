"""From a goodput log to what it says: the one way in for operators, the command line and the calculators."""

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


def measure(  # noqa: PLR0913  (each is a choice of the caller's own)
    files: Sequence[storage.File] | str | LogSource,
    *,
    ideal_step_time: float | None = None,
    windows: Sequence[float] = (),
    start: float | None = None,
    end: float | None = None,
    until: float | None = None,
    job_name: str | None = None,
) -> GoodputReport:
    """Tell where the time of a job went.

    Args:
        files: The files of a run folder, of which those of the goodput log are read; or the place of a log or folder;
            or where else entries come from, such as `ml_metrics.cloud.CloudLogger`.
        ideal_step_time: How many seconds a step should take; computed from the steps if None.
        windows: Rolling windows, in seconds, that end when the job does.
        start: Only the time from here on, in seconds since 1970.
        end: Only the time up to here.
        until: How long the job ran, if it recorded no end; else its last entry is taken for its end.
        job_name: Entries of other jobs are left out. Default: the first entry's job.

    Returns:
        A report, also where there is no log or nothing in it: its `found` is then False.
    """
    log = _log(files, job_name)
    analysis = analyse(log.entries, until=until)
    if len(log.entries) and not analysis.ended:
        lasted = "its last entry" if until is None else "its workload did"
        endless = f"the job recorded no end: it lasted until {lasted}, and its last step does not count"
        analysis = replace(analysis, warnings=(*analysis.warnings, endless))
    return build_report(
        analysis, files=log.files, ideal_step_time=ideal_step_time, windows=windows, start=start, end=end
    )


def _log(files: Sequence[storage.File] | str | LogSource, job_name: str | None) -> Log:
    if isinstance(files, LogSource):
        entries = files.read()
        return Log(entries, 1 if len(entries) else 0)
    return read_log(log_files(files) if isinstance(files, str) else [file for file in files if is_log(file)], job_name)
