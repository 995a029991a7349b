"""Every kind of run of campaigns/whole_runs that does not depend on one machine, with the end that it must have."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from workload_programs import CONDITION, EVERY_SOURCE, METRICS

MEASURED = """
import os
from ml_metrics_telemetry import JsonLinesMetricHandler, configure, put_metric
configure(JsonLinesMetricHandler(), "lines")
put_metric("accuracy", float(os.environ["ACCURACY"]), "lines")
"""
FIRST_ATTEMPT_FAILS = """
import os, sys
place = os.path.join({shared!r}, "retried")
if not os.path.exists(place):
    open(place, "w").close()
    sys.exit(1)
"""
SECOND_HOST_RAISES = """
import os, time
if os.environ["JOB_COMPLETION_INDEX"] == "1":
    raise RuntimeError("the chip is hot")
time.sleep(600)
"""
UNSTABLE = """
import os
place = os.path.join({shared!r}, "ran-once")
accuracy = 0.97 if os.path.exists(place) else 0.5
open(place, "w").close()
from ml_metrics_telemetry import JsonLinesMetricHandler, configure, put_metric
configure(JsonLinesMetricHandler(), "lines")
put_metric("accuracy", accuracy, "lines")
"""


@dataclass(frozen=True, slots=True)
class Kind:
    """One test, the end of its run, and the number of its messages."""

    name: str
    content: dict[str, Any]
    status: str = "success"
    reasons: tuple[str | None, ...] = (None,)
    verdict: str = "recorded"
    state: str = "success"
    messages: int = 0
    attempts: int = 1
    conf: dict[str, Any] = field(default_factory=dict)
    metrics: tuple[str, ...] = ()
    """Metrics that the run must have."""


def python(program: str, **content: Any) -> dict[str, Any]:
    return {"command": ["python3", "-c", program], **content}


def judged(metric: str = "lines/accuracy_final", **condition: Any) -> dict[str, Any]:
    return {"regression_test_config": {"metric_success_conditions": {metric: {**CONDITION, **condition}}}}


FAILED: dict[str, Any] = {"verdict": "fail", "state": "failed", "messages": 1}
KINDS = (
    Kind(
        "every-source",
        python(EVERY_SOURCE, **judged()),
        verdict="pass",
        metrics=METRICS,
    ),
    Kind("out-of-bounds", python(MEASURED, env={"ACCURACY": "0.5"}, **judged()), **FAILED),
    Kind("nothing-measured", {"command": ["true"], **judged()}, **FAILED),
    Kind("not-judged", {"command": ["true"]}),
    Kind("exits-three", {"command": ["sh", "-c", "exit 3"]}, "failure", ("ExitCode:3",), **FAILED),
    Kind(
        "outlives-its-timeout",
        {"command": ["sleep", "600"], "timeout": "3s"},
        "timeout",
        ("DeadlineExceeded",),
        **FAILED,
    ),
    Kind(
        "no-such-image",
        {"command": ["true"], "image": "unreachable.invalid/image:1", "startup_timeout": "5s"},
        "missed",
        ("ErrImagePull", "ImagePullBackOff"),
        **FAILED,
    ),
    Kind(
        "no-such-accelerator",
        {"command": ["true"], "accelerator": "v5litepod-4", "startup_timeout": "5s"},
        "missed",
        ("Unschedulable",),
        **FAILED,
    ),
    Kind(
        "two-hosts-one-raises",
        python(SECOND_HOST_RAISES, hosts=2),
        "failure",
        ("ExitCode:1",),
        **FAILED,
    ),
    Kind("queued-for-ever", {"command": ["true"], "hosts": 2, "queue": "tpu", "startup_timeout": "3s"}, "missed",
         ("Queued",), **FAILED),
    Kind("retried", python(FIRST_ATTEMPT_FAILS, retries=1), attempts=2),
    Kind("confirmed-by-another-run", python(UNSTABLE, **judged(confirm=2)), verdict="fail", state="failed"),
    Kind(
        "a-trial",
        python(MEASURED, env={"ACCURACY": "{{ params.accuracy }}"}, params={"accuracy": 0.97}, **judged()),
        **FAILED,
        conf={"accuracy": 0.5, "notify": "alice@example.com"},
    ),
)  # fmt: skip
