"""A recorder for AXLearn: `--recorder_type=ml_metrics_telemetry.axlearn:ml_metrics`, `--recorder_spec=key=value`."""

from __future__ import annotations

import logging
import os
from contextlib import contextmanager
from pkgutil import resolve_name

from axlearn.common import measurement

from ml_metrics_telemetry.destinations import RUN_DIR
from ml_metrics_telemetry.recorder import GoodputRecorder

TYPE_CHECKING = False  # as type checkers know it
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

logger = logging.getLogger(__name__)

DEFAULTS = {
    "name": "",
    "upload_dir": "",
    "upload_interval": "30",
    "include_step_deviation": "True",
    "step_deviation_interval_seconds": "30",
    "rolling_window_size": "",
    "enable_gcp_goodput_metrics": "False",
    "enable_gcp_step_deviation_metrics": "False",
}
"""The keys of `--recorder_spec`, which are those of AXLearn's own recorder."""
TRUTH = {"true": True, "1": True, "false": False, "0": False}


@measurement.register_recorder("ml_metrics")
class Recorder:
    """Records into the run folder, or without one into `upload_dir`. The goodput is computed after the run.

    `upload_dir` receives curves for TensorBoard while the job runs, if the image has `ml-metrics` and its own process 0
    trains. Figures go to Google Cloud Monitoring only where the spec says so.
    """

    @classmethod
    def from_flags(cls, fv: Any) -> Recorder:
        """Raises ValueError for an unknown key of the spec."""
        spec = dict(DEFAULTS)
        for one in fv.recorder_spec:
            key, equals, value = one.partition("=")
            if key not in DEFAULTS or not equals:
                raise ValueError(f"--recorder_spec={one}: write key=value, with one of the keys {', '.join(DEFAULTS)}")
            spec[key] = value
        return cls(spec)

    def __init__(self, spec: dict[str, str]) -> None:
        self.spec = spec
        self.name = os.environ.get("JOB_NAME") or spec["name"] or "training"
        self.folder = os.environ.get(RUN_DIR) or spec["upload_dir"] or None
        self.recorder = GoodputRecorder(self.name, f"goodput_{self.name}", logging_enabled=True, folder=self.folder)
        self.monitor: Any = None

    @contextmanager
    def record_event(self, event: Any, *args: Any, **kwargs: Any) -> Iterator[None]:
        """Record the start and the end of an `EventType`. A step ends where the next one starts."""
        getattr(self.recorder, f"record_{event.value}_start_time")(*args, **kwargs)
        try:
            yield
        finally:
            if event.value != "step":
                getattr(self.recorder, f"record_{event.value}_end_time")(*args, **kwargs)

    def record(self, event: Any, *args: Any, **kwargs: Any) -> None:
        """Record an `Event` of older versions, such as `START_STEP`."""
        when, _, what = event.value.lower().partition("_")
        what = "tpu_init" if what == "accelerator_init" else what
        getattr(self.recorder, f"record_{what}_{when}_time")(*args, **kwargs)

    def start_monitoring(self, **_: Any) -> None:
        """Start to write curves into `upload_dir`, if there is one."""
        spec = self.spec
        if not spec["upload_dir"] or self.monitor is not None:
            return
        try:
            gcp_options = resolve_name("ml_metrics.measure.cloud:GCPOptions")  # of a package that an image may lack
            monitor = resolve_name("ml_metrics.measure.goodput:GoodputMonitor")
        except ImportError as error:
            logger.warning("no curves are written to %s: %s", spec["upload_dir"], error)
            return
        import jax

        switches = ("enable_gcp_goodput_metrics", "enable_gcp_step_deviation_metrics")
        sent = {key: TRUTH[spec[key].lower()] for key in switches}
        self.monitor = monitor(
            self.name,
            f"goodput_{self.name}",
            spec["upload_dir"],
            float(spec["upload_interval"]),
            monitoring_enabled=jax.process_index() == 0,
            include_step_deviation=TRUTH[spec["include_step_deviation"].lower()],
            step_deviation_interval_seconds=float(spec["step_deviation_interval_seconds"]),
            gcp_options=gcp_options(**sent) if any(sent.values()) else None,
            folder=self.folder,
        )
        self.monitor.start_goodput_uploader()
        if windows := [float(one) for one in spec["rolling_window_size"].strip("[]").split(",") if one.strip()]:
            self.monitor.start_rolling_window_goodput_uploader(windows)

    @contextmanager
    def maybe_monitor_all(self) -> Iterator[None]:
        self.start_monitoring()
        try:
            yield
        finally:
            if self.monitor is not None:
                self.monitor.stop_goodput_uploader()
                self.monitor.stop_rolling_window_goodput_uploader()
