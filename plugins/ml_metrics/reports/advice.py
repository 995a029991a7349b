"""The first step to take about a problem, in one short paragraph."""

from __future__ import annotations

from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING

from ml_metrics.errors import MlMetricsError
from ml_metrics.model import JobStatus
from ml_metrics.reports.job_words import IMAGES, OUT_OF_MEMORY, TIMEOUTS

if TYPE_CHECKING:
    from ml_metrics.model import Workload
    from ml_metrics.run_state import RunState

MAX_COMPARED_NAMES = 2000
"""Comparing names takes a while each."""
NEAREST = 3
UNSCHEDULABLE = "Unschedulable"
ADVICE: dict[str, str] = {
    UNSCHEDULABLE: "Check that the cluster has free nodes that fit the requests, and that the quota allows them.",
    "quota": "Ask for more quota, or wait until other workloads have ended.",
    JobStatus.TIMEOUT: "See at the end of the log whether the program still made progress; if so, raise timeout.",
    JobStatus.MISSED: "The workload never ran, so this is not about the program: see what the cluster states.",
}


def advice_on(problem: str, state: RunState, metric: str) -> str:
    """Return what to do about a kind of problem; empty if only earlier runs can show that."""
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
    near = get_close_matches(metric, islice(sorted(written), MAX_COMPARED_NAMES), NEAREST, 0.6)
    if near:
        return f"Check whether it was renamed: the run wrote {' and '.join(near)}, whose names are nearest."
    return f"Check that the program still writes it: none of the {len(written):,} tags of the run has a similar name."
