"""`goodput`: whether and how the useful share of a job's time is measured."""

from __future__ import annotations

from ml_metrics.config.duration import Duration
from ml_metrics.config.strict import Strict


class CloudLog(Strict):
    """A log in Google Cloud Logging that the workload's goodput is read from, in place of its `goodput.jsonl`."""

    project_id: str
    """The Google Cloud project."""
    log_name: str | None = None
    """The name of the log, `logger_name` in the workload. Default: `goodput_` and the job's name."""
    job_name: str | None = None
    """The job whose entries are read. Default: what the variable `JOB_NAME` says in the workload."""


class GCPOptions(Strict):
    """Where in Google Cloud Monitoring the goodput goes, and which of it."""

    project_id: str
    """The Google Cloud project."""
    location: str
    """The zone or region that the series are labelled with."""
    replica_id: str = "0"
    """The replica that they are labelled with."""
    acc_type: str | None = None
    """The accelerator that they are labelled with. Default: that of the test."""
    cluster_name: str | None = None
    """The cluster that they are labelled with."""
    enable_gcp_goodput_metrics: bool = True
    """Whether goodput and badput are sent."""
    enable_gcp_step_deviation_metrics: bool = True
    """Whether the deviation of steps is sent."""


class GoodputConfig(Strict):
    """How goodput is measured. A run that wrote no `goodput.jsonl` has none, and nothing is wrong with that."""

    enabled: bool = True
    """Whether goodput is measured."""
    ideal_step_time: Duration | None = None
    """What a step should take; computed from the steps where it is not given."""
    rolling_windows: tuple[Duration, ...] = ()
    """Goodput of the last hour, day, ... besides that of the whole job."""
    cloud_logging: CloudLog | None = None
    """A log in Google Cloud Logging to read in place of `goodput.jsonl`."""
    gcp_options: GCPOptions | None = None
    """Send the figures to Google Cloud Monitoring, too, when the workload is over."""
