"""Programs of workloads whose run folder is in a bucket, and what they are judged by."""

from __future__ import annotations

EVERY_SOURCE = """
from ml_metrics_telemetry import GoodputRecorder, JsonLinesMetricHandler, TensorBoardMetricHandler
from ml_metrics_telemetry import configure, local_folder, put_metric
from tensorboard.summary import Writer
by_path = Writer(str(local_folder() / "by-path"))
by_path.add_scalar("by_path", 0.5, 1)
by_path.close()
recorder = GoodputRecorder("job", "log", True)
recorder.record_job_start_time()
for step in range(5):
    recorder.record_step_start_time(step)
configure(JsonLinesMetricHandler(), "lines")
configure(TensorBoardMetricHandler(), "events")
for value in (0.5, 0.97):
    put_metric("accuracy", value, "lines")
    put_metric("accuracy", value, "events")
recorder.record_job_end_time()
print("everything was written")
"""
"""It writes with everything that the telemetry has, and by path."""
METRICS = ("lines/accuracy_final", "events/accuracy_final", "by_path_final", "goodput", "total_wall_time")
"""What is measured about it."""
CONDITION = {"comparison": "greater", "success_threshold": {"fixed_value": 0.96}}
