"""A report as a run might make it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ml_metrics.alerts import Act
from ml_metrics.alerts.message import Fact, Log, MessageKind, Picture, Problem, Report
from ml_metrics.alerts.report import buttons_of

TEST = "tf-mnist-example-cpu"
DASHBOARD = "http://localhost:8080/ml-metrics"
KEY = "00000000-0000-5000-8000-000000000000"
LOSS = Problem(
    name="out_of_bounds:loss_final",
    short="loss_final +99 % to 1.79",
    sentence="loss_final 1.79, must be below 0.96 (+99 % against the baseline)",
    facts=(
        Fact("baseline", "0.9 ± 0.02, from 12 runs"),
        Fact("rule", "less than mean + 3 sd"),
        Fact("how sure", "very unlikely to be noise: fewer than 1 in 1,000,000 healthy runs look like this"),
        Fact("last runs", "0.91 · 0.9 · 0.88 · 0.92 · 0.9"),
    ),
    picture=Picture("metric-1", b"\x89PNG\r\n\x1a\n", "loss_final in its last 13 runs, with its bounds"),
)
LOG = Log(
    "The last 4 lines of the log of the container base",
    (
        "Traceback (most recent call last):",
        '  File "/app/train.py", line 3, in <module>',
        "    </pre><script>alert(1)</script>",
        "MemoryError",
    ),
    "values that are not known here are not masked: HF_TOKEN",
)
JOB = Problem(
    name="job_status:",
    short="out of memory (limit 2Gi, highest measured 1.99Gi)",
    sentence="out of memory (limit 2Gi, highest measured 1.99Gi)",
    log=LOG,
)
REPORT = Report(
    kind=MessageKind.BROKEN,
    test=TEST,
    run_key=KEY,
    run_id="manual__2026-01-02T03:04:05+00:00",
    owner="vision-team",
    problems=(LOSS, JOB),
    facts=(
        Fact("owner", "vision-team"),
        Fact("run", "manual__2026-01-02T03:04:05+00:00"),
        Fact("logs", "the logs of the workload", "http://localhost:8080/log?a=1&b=2"),
        Fact("every run", f"of {TEST}", f"http://localhost:8080/ml-metrics/test?test={TEST}"),
    ),
    suspects=("the job: this run is the first that failed; no earlier run passed",),
    first=(
        "This run is the first bad one; between it and the last good one, run 11111111 of 2026-01-01 03:04, this "
        "changed: image: mnist:v41 → mnist:v42."
    ),
    start=" since 2 Jan; image v41 → v42",
    buttons=buttons_of(TEST, KEY, MessageKind.BROKEN, DASHBOARD, tuple(Act)),
    warnings=("train/events: a torn record ends the file",),
)
CRASHED = (Act.RERUN, Act.ACKNOWLEDGE)
"""What a person can do about a run without a value out of bounds."""


def report_of_kind(kind: MessageKind, acts: tuple[Act, ...] = tuple(Act), **more: Any) -> Report:
    """The same report as a message of another kind, which offers what that kind does."""
    acts = (Act.ACKNOWLEDGE,) if kind is MessageKind.OVERDUE else acts
    return replace(REPORT, kind=kind, buttons=buttons_of(TEST, KEY, kind, DASHBOARD, acts), **more)
