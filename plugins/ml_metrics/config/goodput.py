"""`goodput`: whether and how the productive share of the time of a job is measured."""

from __future__ import annotations

from ml_metrics.config.duration import Duration
from ml_metrics.config.strict import Strict


class CloudLog(Strict):
    """A log in Google Cloud Logging that is read instead of `goodput.jsonl`."""

    project_id: str
    """The Google Cloud project."""
    log_name: str | None = None
    """The name of the log, `logger_name` in the workload. Default: `goodput_` and the job's name."""
    job_name: str | None = None
    """The job whose entries are read. Default: the value of `JOB_NAME` in the workload."""


class GCPOptions(Strict):
    """Which series are sent to Google Cloud Monitoring, and their labels."""

    project_id: str
    """The Google Cloud project."""
    location: str
    """The zone or region in the labels of the series."""
    replica_id: str = "0"
    """The replica in the labels of the series."""
    acc_type: str | None = None
    """The accelerator in the labels of the series. Default: the accelerator of the test."""
    cluster_name: str | None = None
    """The cluster in the labels of the series."""
    enable_gcp_goodput_metrics: bool = True
    """Whether goodput and badput are sent."""
    enable_gcp_step_deviation_metrics: bool = True
    """Whether step time deviation is sent."""


class GoodputConfig(Strict):
    """How goodput is measured. A run without `goodput.jsonl` has no goodput, which is not an error."""

    enabled: bool = True
    """Whether goodput is measured."""
    ideal_step_time: Duration | None = None
    """The ideal duration of a step. Without it, it is computed from the steps."""
    rolling_windows: tuple[Duration, ...] = ()
    """Periods, like the last hour and day, for which goodput is measured besides the whole job."""
    stalls: bool = True
    """Whether the part of a step beyond any usual step is lost time, in the bucket `stall`, instead of productive."""
    cloud_logging: CloudLog | None = None
    """A log in Google Cloud Logging to read instead of `goodput.jsonl`."""
    gcp_options: GCPOptions | None = None
    """Also sends the results to Google Cloud Monitoring when the workload has ended."""
