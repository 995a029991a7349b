"""A job in messages: how it failed, in one line; its memory, its last error, and advice."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING

from ml_metrics.alerts.message import Fact, Log
from ml_metrics.alerts.metric import STATES
from ml_metrics.core.errors import MlMetricsError
from ml_metrics.core.model import BROKEN, JobStatus, StoredMetric, Workload
from ml_metrics.core.settings import Settings
from ml_metrics.core.text import counted
from ml_metrics.core.units import duration, exact, interval
from ml_metrics.judge import Reference, main_metric
from ml_metrics.measure import cut, error_of, failing_log, lines_of, read_logs
from ml_metrics.store import storage
from ml_metrics.store.run_folder import RunFolder

if TYPE_CHECKING:
    from ml_metrics.pipeline import RunState
    from ml_metrics.warehouse import JobRow, RunSummary


OUT_OF_MEMORY, UNSCHEDULABLE, EXIT_CODE = "OOMKilled", "Unschedulable", "ExitCode:"
TIMEOUTS = frozenset({"DeadlineExceeded", "ExecutionTimeout"})
IMAGES = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
MAX_DETAIL_LENGTH, MAX_LINE_LENGTH, MAX_ERROR_LENGTH = 200, 300, 100
SHOWN_LINES = 20
MOST_COUNTED = 25
"""From so many on, broken metrics are not counted exactly."""
FOLDER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""Names in rows are untrusted: a name like `..` would lead out of the storage root."""
ADVICE: dict[str, str] = {
    UNSCHEDULABLE: "Check that the cluster has free nodes that fit the requests, and that the quota allows them.",
    "quota": "Ask for more quota, or wait until other workloads have ended.",
    JobStatus.TIMEOUT: "See at the end of the log whether the program still made progress; if so, raise timeout.",
    JobStatus.MISSED: "The workload never ran, so this is not about the program: see what the cluster states.",
}


def job_words(workload: Workload, error: str) -> tuple[str, str]:
    """The text of a failed job in a subject, and all that is known. `error` is the last one of its log."""
    reason, detail = workload.failure_reason or "", _first_sentence(workload.detail or "")
    if reason == OUT_OF_MEMORY:
        return (short := f"out of memory ({memory_of(workload)})"), short
    if workload.status is JobStatus.FAILURE and error:
        return error, error
    if workload.status is JobStatus.TIMEOUT or reason in TIMEOUTS:
        time = "" if workload.duration_seconds is None else f" after {duration(workload.duration_seconds)}"
        last = f": {error}" if error else ""
        return (short := f"stopped{time} by its timeout{last}"), short
    if workload.status is JobStatus.MISSED:
        known = {UNSCHEDULABLE: "no node fits"}.get(
            reason, "the image cannot be pulled" if reason in IMAGES else reason
        )
        short = f"never started: {known}" if known else "never started"
        return short, f"The job {short}{f': {detail}' if detail and detail != known else ''}"
    if reason.startswith(EXIT_CODE):
        return (short := f"exit code {reason.removeprefix(EXIT_CODE)}"), short
    known = f": {detail}" if detail else ""
    return f"job {workload.status}{f' ({reason})' if reason else ''}", f"The job failed: {reason or 'unknown'}{known}"


def job_facts(workload: Workload, headline: str) -> Iterator[Fact]:
    """The reason under its name in docs and lists, and the cluster's own message unless the headline has it."""
    if workload.failure_reason:
        yield Fact("reason", workload.failure_reason)
    detail = " ".join((workload.detail or "").split())
    if detail and detail.rstrip(".") not in headline:
        yield Fact("the cluster", detail)


def memory_of(workload: Workload) -> str:
    """Limit and peak: `limit 2Gi, highest measured 1.99Gi`."""
    limit = f"limit {workload.memory_limit}" if workload.memory_limit else "no limit, the node had none left"
    peak = workload.peak_memory_bytes
    if not peak:
        return limit
    shown = f"{peak / 2**30:.3g}Gi" if peak >= 2**30 else f"{peak / 2**20:.4g}Mi"
    return f"{limit}, highest measured {shown}"


def _first_sentence(text: str) -> str:
    flat = " ".join(text.split())
    first = re.split(r"(?<=[.;]) ", flat, maxsplit=1)[0].rstrip(".;")
    return first if len(first) <= MAX_DETAIL_LENGTH else f"{first[: MAX_DETAIL_LENGTH - 1]}…"


def advice_on(problem: str, state: RunState, metric: str) -> str:
    """What to do about a kind of problem; empty if only earlier runs can show that."""
    kind = problem.partition(":")[0]
    if kind == "job_status":
        return _on_job(state.workload)
    if kind == "missing":
        return _on_missing(metric, state)
    if kind == "task":
        return f"Read the log of task {problem.partition(':')[2]} in Airflow: the workload may be fine."
    if kind == "implausible":
        return "Check what was measured: a value this good is often a run that did less work."
    return ""


def _on_job(workload: Workload) -> str:
    reason = workload.failure_reason or ""
    if reason == OUT_OF_MEMORY:
        change = "Raise the memory limit" if workload.memory_limit else "Set a memory limit, or use a larger node"
        return f"{change} (resources in the test file), or let the program hold less at once."
    if reason in IMAGES:
        image = f" {workload.image}" if workload.image else ""
        return f"Check that the image{image} exists, and that the cluster may pull it."
    kind = "quota" if "quota" in reason.lower() else reason if reason == UNSCHEDULABLE else workload.status
    return ADVICE.get("timeout" if reason in TIMEOUTS else kind, "")


def _on_missing(metric: str, state: RunState) -> str:
    """Name the tags that the run did write and whose names are nearest."""
    try:
        written = {name for one in state.metrics for name in (one.name, one.tag) if name}
    except (MlMetricsError, KeyError, ValueError):  # a damaged document
        return ""
    if not written:
        return "The run wrote no metrics at all: check whether the program writes them where the test reads them."
    # comparing names takes a while each
    near = get_close_matches(metric, islice(sorted(written), 2000), 3, 0.6)
    if near:
        return f"Check whether it was renamed: the run wrote {' and '.join(near)}, whose names are nearest."
    tags = counted(len(written), "tag")
    return f"Check that the program still writes it: the run wrote {tags}, none with a similar name."


def log_of(folder: RunFolder, attempt: int, number: int = SHOWN_LINES) -> Log | None:
    """The last lines of the container that failed in an attempt; None if no logs are listed."""
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
    """The last error that a log ends with; empty if no line looks like one."""
    for line in reversed(lines):
        if error := error_of(line.rstrip()):
            return cut(error, MAX_ERROR_LENGTH)
    return ""


def why(
    run: JobRow | RunSummary,
    rows: Sequence[StoredMetric],
    *,
    error: str = "",
    references: Mapping[str, Reference] = MappingProxyType({}),
    attributes: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> str:
    """The reason for the state of a run; empty if nothing is wrong.

    `rows` are its metrics, or those that broke; `error` is the last one of its log. `references`: what its metrics are
    compared with, as far as that is known. `attributes`: what is recorded about the runs around the changes of levels.
    """
    if run.job_status != JobStatus.SUCCESS:
        return ": ".join(filter(None, (run.job_status, run.failure_reason, error)))
    main = main_metric(rows, references)
    if main is None:
        return ""
    reference = references.get(main.metric)
    change = reference.words(main.value, attributes) if reference else ""
    count = sum(row.outcome in BROKEN for row in rows)
    more = f" (+{count - 1}{' or' if count >= MOST_COUNTED else ''} more)" if count > 1 else ""
    return f"{state_of(main)}{', ' if change else ''}{change}{more}"


def state_of(metric: StoredMetric) -> str:
    """A metric with its value and, if it broke, with what it had to be: `loss = 2.08, must be below 0.05`."""
    if metric.outcome in STATES:
        return f"{metric.metric} {STATES[metric.outcome]}"
    text = f"{metric.metric} = {exact([metric.value], metric.unit)[0]}"
    if metric.outcome not in BROKEN:
        return text
    if metric.lower is None and metric.upper is None:
        return f"{text} is out of bounds"
    return f"{text}, must be {interval(metric.lower, metric.upper, metric.unit, exact, inclusive=metric.inclusive)}"


def last_error(run: JobRow) -> str:
    """The error with which the log of a failed run ends, or else its last line; empty if there is none."""
    folder = folder_of(run) if run.job_status != JobStatus.SUCCESS else None
    if folder is None:
        return ""
    logs = read_logs(folder)
    failing = failing_log(logs, max((log.attempt for log in logs), default=0))
    if failing is None:
        return ""
    lines = [line for line in lines_of(folder, failing) if line.strip()]
    return cut(failing.error or error_in(lines) or (lines[-1].strip() if lines else ""), MAX_ERROR_LENGTH)


def folder_of(run: JobRow) -> RunFolder | None:
    """The run folder of a run, or None if the name of the test or the run cannot be that of a folder."""
    if not FOLDER_NAME.fullmatch(run.test_name) or not FOLDER_NAME.fullmatch(run.uuid):
        return None
    root = Settings.load().storage_root
    return RunFolder(storage.join(root, run.test_name, run.uuid), root)
