"""The tests of the campaign, and the traces that their workloads leave outside of what the product writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workload_programs import CONDITION

if TYPE_CHECKING:
    from pathlib import Path

GOOD, BAD, BREAKS = "0.97", "0.5", "breaks"
"""What a workload reads before it measures: its accuracy, or that it fails."""
SECONDS = "seconds"
"""The file that says how long workloads work."""
WORK = """
import os, sys, time
shared, key = {shared!r}, os.environ["ML_METRICS_RUN_DIR"].rstrip("/").rpartition("/")[2]
def leave(word):
    open(os.path.join(shared, key + "-" + word + "-" + os.environ["POD_NAME"]), "w").close()
leave("began")
time.sleep(float(open(os.path.join(shared, {file!r})).read()))
value = open(os.path.join(shared, "value-" + {test!r})).read()
if os.environ.get("JOB_COMPLETION_INDEX", "0") == "0":
    from ml_metrics_telemetry import JsonLinesMetricHandler, configure, put_metric
    for number in range(300):
        try:
            configure(JsonLinesMetricHandler(), "lines")
            put_metric("accuracy", 0.0 if value == "breaks" else float(value), "lines")
            break
        except Exception as error:
            print("the bucket is away:", error, flush=True)
            time.sleep(1)
leave("ended")
sys.exit(3 if value == "breaks" else 0)
"""
METRIC = "lines/accuracy_final"


@dataclass(frozen=True, slots=True)
class Case:
    """A test that every wave runs once."""

    name: str
    turns: tuple[str, ...]
    """What its runs measure, one after the other, and again from the start."""
    hosts: int = 1

    def test(self, shared: Path, variables: dict[str, str]) -> dict[str, Any]:
        """Return the content of the test file."""
        program = WORK.format(shared=str(shared), file=SECONDS, test=self.name)
        return {
            "name": self.name,
            "image": "local/image:1",
            "command": ["python3", "-c", program],
            "owner": "a-new-user",
            "emails": ["a@example.com"],
            "hosts": self.hosts,
            "env": variables,
            "timeout": "20m",
            "startup_timeout": "10m",
            "regression_test_config": {"metric_success_conditions": {METRIC: CONDITION}},
        }


FEW_CASES = (
    Case("steady", (GOOD,)),
    Case("worse-and-well", (BAD, GOOD)),
    Case("breaks-and-well", (BREAKS, GOOD)),
)
EVERY_CASE = (*FEW_CASES, Case("three-hosts", (GOOD,), hosts=3))
