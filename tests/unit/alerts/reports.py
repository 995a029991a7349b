"""A report as a run might make it."""

from __future__ import annotations

from ml_metrics.alerts.message import Fact, Log, MessageKind, Picture, Problem, Report

TEST = "tf-mnist-example-cpu"
KEY = "00000000-0000-5000-8000-000000000000"
LOSS = Problem(
    name="out_of_bounds:loss_final",
    short="loss_final out of bounds",
    sentence=f"Metric `loss_final` was out of bounds for test `{TEST}`. Bounds were (-inf, 0.96) and value was 1.79",
    facts=(
        Fact("value", "1.79"),
        Fact("bounds", "(-inf, 0.96)"),
        Fact("rule", "less than mean + 3 sd"),
        Fact("because", "1.79 is above 0.96 (mean 0.9, sd 0.02)"),
        Fact("baseline", "0.9, spread 0.02, from 12 runs"),
        Fact("change", "+98.9 % from the baseline"),
        Fact("last runs", "0.91 0.9 0.88 0.92 0.9"),
    ),
    picture=Picture("metric-1", b"\x89PNG\r\n\x1a\n", "loss_final in its last 13 runs, with its bounds"),
)
JOB = Problem(
    name="job_status:",
    short="job failure (OOMKilled)",
    sentence=f"job_status was `failure` for test `{TEST}`",
    facts=(Fact("because", "OOMKilled"), Fact("memory", "limit 2Gi, highest measured 1.99Gi")),
    log=Log(
        "The last 4 lines of the log of the container base",
        (
            "Traceback (most recent call last):",
            '  File "/app/train.py", line 3, in <module>',
            "    </pre><script>alert(1)</script>",
            "MemoryError",
        ),
        "values that are not known here are not masked: HF_TOKEN",
    ),
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
        Fact("this run", "on the dashboard", f"http://localhost:8080/ml-metrics/run?run={KEY}"),
        Fact("every run", f"of {TEST}", f"http://localhost:8080/ml-metrics/test?test={TEST}"),
    ),
    suspects=(
        "loss_final: this run is the first that failed; the last that passed was run 11111111 of 2026-01-01 03:04. ",
    ),
    warnings=("train/events: a torn record ends the file",),
    commands=(Fact("Download the logs", "gcloud logging read 'resource.type=\"k8s_container\"' --limit 1000"),),
)
