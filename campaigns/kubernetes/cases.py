"""Tests of every kind, with their expected outcomes on a real cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from campaigns.kubernetes.cluster import IMAGE

WORK = """
import json, os, time
for step in range(3):
    print("step", step)
    time.sleep(1)
with open(os.path.join(os.environ["MODEL_DIR"], "results.jsonl"), "w") as file:
    file.write(json.dumps({"metrics": {"loss": 0.25}, "dimensions": {}}) + "\\n")
"""
CONDITIONS = {"metric_success_conditions": {"loss": {"comparison": "less", "success_threshold": {"fixed_value": 0.5}}}}
HUNGRY = "held = []\nwhile True: held.append(b'1' * 8_000_000)"
FILLING = "import time; open('/scratch/x', 'wb').write(bytes(50_000_000)); time.sleep(300)"


@dataclass(frozen=True)
class Case:
    """A test, its program, and its expected outcome."""

    name: str
    program: str
    status: str
    reasons: tuple[str | None, ...]
    content: dict[str, Any] = field(default_factory=dict)
    deferred: bool = False


CASES = (
    Case(
        "succeeds",
        WORK,
        "success",
        (None,),
        {"volumes": {"/dev/shm": {"memory": "16Mi"}}, "regression_test_config": CONDITIONS},
    ),
    Case("deferred", WORK, "success", (None,), deferred=True),
    Case(
        "outlived-by-its-sidecar",
        "print('done')",
        "success",
        (None,),
        {"pod": {"spec": {"containers": [{"name": "proxy", "image": IMAGE, "command": ["sleep", "600"]}]}}},
    ),
    Case("exits-three", "import sys; sys.exit(3)", "failure", ("ExitCode:3",)),
    Case("eats-its-memory", HUNGRY, "failure", ("OOMKilled",), {"resources": {"memory": "64Mi"}}),
    Case("fills-its-scratch", FILLING, "failure", ("Evicted",), {"volumes": {"/scratch": {"scratch": "1Mi"}}}),
    Case("outlives-its-time", "import time; time.sleep(600)", "timeout", ("DeadlineExceeded",), {"timeout": "5s"}),
    Case("no-image", "pass", "missed", ("ErrImagePull", "ImagePullBackOff"), {"image": "unreachable.invalid/image:1"}),
    Case("too-large", "pass", "missed", ("Unschedulable",), {"resources": {"cpu": "4000"}, "startup_timeout": "10s"}),
    Case(
        "no-such-node", "pass", "missed", ("Unschedulable",), {"accelerator": "v5litepod-4", "startup_timeout": "10s"}
    ),
    Case("no-program", "pass", "missed", ("StartError", "ContainerCannotRun"), {"command": ["no-such-program"]}),
    Case(
        "no-secret",
        "pass",
        "missed",
        ("CreateContainerConfigError",),
        {"secrets": {"KEY": "none/key"}, "startup_timeout": "10s"},
    ),
    Case("not-admitted", "pass", "missed", ("PodRejected",), {"priority_class": "no-such-class"}),
)
