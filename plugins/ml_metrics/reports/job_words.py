"""How a job failed, in one line: the last error in its log, its memory, or the cluster's own message."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ml_metrics.alerts.message import Fact
from ml_metrics.model import JobStatus
from ml_metrics.units import duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ml_metrics.model import Workload

OUT_OF_MEMORY = "OOMKilled"
EXIT_CODE = "ExitCode:"
TIMEOUTS = frozenset({"DeadlineExceeded", "ExecutionTimeout"})
IMAGES = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
MAX_DETAIL_LENGTH = 200


def job_words(workload: Workload, error: str) -> tuple[str, str]:
    """Return the text of a failed job in a subject, and its headline. `error` is the last one of its log."""
    reason, detail = workload.failure_reason or "", _first_sentence(workload.detail or "")
    if reason == OUT_OF_MEMORY:
        return f"out of memory ({memory_of(workload)})", f"The job ran out of memory: {memory_of(workload)}"
    if workload.status is JobStatus.FAILURE and error:
        return error, error
    if workload.status is JobStatus.TIMEOUT or reason in TIMEOUTS:
        time = "" if workload.duration_seconds is None else f" after {duration(workload.duration_seconds)}"
        last = f": {error}" if error else ""
        return f"stopped{time} by its timeout{last}", f"The job was stopped{time}, by its timeout{last}"
    if workload.status is JobStatus.MISSED:
        known = _missed(reason)
        short = f"never started: {known}" if known else "never started"
        return short, f"The job {short}{f': {detail}' if detail and detail != known else ''}"
    if reason.startswith(EXIT_CODE):
        code = reason.removeprefix(EXIT_CODE)
        return f"exit code {code}", f"The job ended with exit code {code}"
    known = f": {detail}" if detail else ""
    return f"job {workload.status}{f' ({reason})' if reason else ''}", f"The job failed: {reason or 'unknown'}{known}"


def job_facts(workload: Workload, headline: str) -> Iterator[Fact]:
    """Yield the cluster's own message unless the headline has it. Status and reason are among the facts of the run."""
    detail = " ".join((workload.detail or "").split())
    if detail and detail.rstrip(".") not in headline:
        yield Fact("the cluster", detail)


def memory_of(workload: Workload) -> str:
    """Return limit and peak: `limit 2Gi, highest measured 1.99Gi`."""
    limit = f"limit {workload.memory_limit}" if workload.memory_limit else "no limit, the node had none left"
    peak = workload.peak_memory_bytes
    return f"{limit}, highest measured {_bytes(peak)}" if peak else limit


def _missed(reason: str) -> str:
    return {"Unschedulable": "no node fits"}.get(reason, "the image cannot be pulled" if reason in IMAGES else reason)


def _first_sentence(text: str) -> str:
    flat = " ".join(text.split())
    first = re.split(r"(?<=[.;]) ", flat, maxsplit=1)[0].rstrip(".;")
    return first if len(first) <= MAX_DETAIL_LENGTH else f"{first[: MAX_DETAIL_LENGTH - 1]}…"


def _bytes(number: int) -> str:
    """Return a number of bytes in the units in which Kubernetes states limits."""
    return f"{number / 2**30:.3g}Gi" if number >= 2**30 else f"{number / 2**20:.4g}Mi"
