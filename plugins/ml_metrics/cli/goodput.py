"""`ml-metrics goodput`: tell where the time of a job went."""

from __future__ import annotations

import argparse
import math
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ml_metrics import storage
from ml_metrics.cli.output import print_json, warn
from ml_metrics.errors import MlMetricsError, UnreadableInputError
from ml_metrics.goodput.measure import measure
from ml_metrics.goodput.report import Part

if TYPE_CHECKING:
    from ml_metrics.cloud import CloudLogger, GCPOptions
    from ml_metrics.goodput.report import GoodputReport
    from ml_metrics.goodput.uploader import Options

ABOUT = """\
Tell where the time of a job went: how much of it was productive, and what the rest was spent on.

LOG is a goodput log, or a run folder that holds one (goodput.jsonl, and its parts if the workload wrote to a bucket).
What ml-goodput-measurement wrote to Google Cloud Logging is cloud-logging://PROJECT/LOG, with --job.

examples:
  ml-metrics goodput runs/my-test/5f0c/goodput.jsonl
  ml-metrics goodput gs://bucket/runs/my-test/5f0c --json
  ml-metrics goodput cloud-logging://my-project/goodput_my-run --job my-run
  ml-metrics goodput goodput.jsonl --from 2026-01-05T08:00:00Z --to 2026-01-05T20:00:00Z
  ml-metrics goodput goodput.jsonl --window 3600 --ideal-step-time 2.5
  ml-metrics goodput runs/my-test/5f0c --follow --tensorboard runs/my-test/5f0c/goodput-curves
  ml-metrics goodput runs/my-test/5f0c --follow --gcp-project-id my-project --gcp-location us-central1-a
"""

CLOUD = "cloud-logging://"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("log", metavar="LOG", help="a goodput log, or a folder with one")
    parser.add_argument("--from", dest="start", type=moment, metavar="T", help="only the time from here on")
    parser.add_argument("--to", dest="end", type=moment, metavar="T", help="only the time up to here")
    parser.add_argument(
        "--window",
        type=seconds,
        action="append",
        default=[],
        metavar="S",
        help="also the last S seconds; may be given several times",
    )
    parser.add_argument("--ideal-step-time", type=seconds, metavar="S", help="how long a step should take")
    parser.add_argument("--job", metavar="NAME", help="the job, where a log holds several")
    parser.add_argument("--follow", action="store_true", help="go on, with a line at each interval, until the job ends")
    parser.add_argument("--interval", type=seconds, default=30.0, metavar="S", help="for --follow; default 30")
    parser.add_argument("--tensorboard", metavar="DIR", help="for --follow: write scalars there, too")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    cloud = parser.add_argument_group("Google Cloud Monitoring", "send the figures there, once or with --follow")
    cloud.add_argument("--gcp-project-id", metavar="P", help="the project; without it, nothing is sent")
    cloud.add_argument("--gcp-location", metavar="L", help="the zone or region of the job")
    cloud.add_argument("--gcp-replica-id", metavar="R", default="0", help="default 0")
    cloud.add_argument("--gcp-acc-type", metavar="A", help="the accelerator, such as TPU-v5p")
    cloud.add_argument("--gcp-cluster-name", metavar="C", help="the cluster")
    cloud.add_argument("--no-gcp-goodput-metrics", action="store_true", help="send no goodput and badput")
    cloud.add_argument("--no-gcp-step-deviation-metrics", action="store_true", help="send no step deviation")


def run(arguments: argparse.Namespace) -> int:
    """Answer, and return the exit code."""
    log = arguments.log
    if log.startswith(CLOUD):
        if not arguments.job:
            raise UnreadableInputError(f"{log}: which job? Give --job NAME")
    elif storage.is_local(log) and not storage.local_path(log).exists():
        raise UnreadableInputError(f"{log}: there is no such file or folder")
    report = _followed(arguments) if arguments.follow else _measured(arguments)
    if arguments.json:
        print_json(report.document())
    elif arguments.follow:
        print(report.summary)
    else:
        _print(report)
    return 0 if report.found else 1


def _measured(arguments: argparse.Namespace) -> GoodputReport:
    report = measure(
        _cloud_log(arguments) or arguments.log,
        ideal_step_time=arguments.ideal_step_time,
        windows=arguments.window,
        start=arguments.start,
        end=arguments.end,
        job_name=arguments.job,
    )
    gcp = _gcp_options(arguments)
    if gcp is not None:
        from ml_metrics.cloud import CloudMonitoring

        CloudMonitoring(report.job_name or "", gcp).write(report, set(Part))
    return report


def _followed(arguments: argparse.Namespace) -> GoodputReport:
    """Tell how a running job stands, until it ends or the person does."""
    from ml_metrics.goodput.uploader import Uploader

    uploads = Uploader(_options(arguments))
    report = uploads.once()
    with suppress(KeyboardInterrupt):
        while not report.ended:
            if not arguments.json:
                print(report.summary, flush=True)
            time.sleep(arguments.interval)
            try:
                report = uploads.once()
            except MlMetricsError as error:  # a bucket that does not answer now may answer the next time
                warn(str(error))
    return report


def _options(arguments: argparse.Namespace) -> Options:
    """What is written at each interval."""
    from ml_metrics.goodput.uploader import Options

    log, gcp = _cloud_log(arguments), _gcp_options(arguments)
    return Options(
        folder=arguments.log,
        job_name=arguments.job,
        tensorboard_dir=arguments.tensorboard,
        intervals=dict.fromkeys(Part, arguments.interval),
        ideal_step_time=arguments.ideal_step_time,
        windows=tuple(dict.fromkeys(arguments.window)),
        source=None if log is None else log.factory_spec(arguments.job),
        export=None if gcp is None else gcp.factory_spec(arguments.job or _job_in(arguments.log)),
    )


def _job_in(log: str) -> str:
    """The job of a log: series in Cloud Monitoring carry its name."""
    job = measure(log).job_name
    if job is None:
        raise UnreadableInputError(f"{log}: names no job yet: give --job NAME")
    return job


def _cloud_log(arguments: argparse.Namespace) -> CloudLogger | None:
    if not arguments.log.startswith(CLOUD):
        return None
    from ml_metrics.cloud import CloudLogger

    return CloudLogger.at(arguments.log, arguments.job)


def _gcp_options(arguments: argparse.Namespace) -> GCPOptions | None:
    if arguments.gcp_project_id is None:
        return None
    from ml_metrics.cloud import GCPOptions

    return GCPOptions(
        project_id=arguments.gcp_project_id,
        location=arguments.gcp_location,
        replica_id=arguments.gcp_replica_id,
        acc_type=arguments.gcp_acc_type,
        cluster_name=arguments.gcp_cluster_name,
        enable_gcp_goodput_metrics=not arguments.no_gcp_goodput_metrics,
        enable_gcp_step_deviation_metrics=not arguments.no_gcp_step_deviation_metrics,
    )


def moment(text: str) -> float:
    """A moment as a person writes it: seconds since 1970, or ISO 8601; UTC where it names no zone."""
    try:
        value = float(text)
    except ValueError:
        try:
            parsed = datetime.fromisoformat(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is no moment: write 2026-01-05T08:00:00Z") from None
        value = (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is no moment")
    return value


def seconds(text: str) -> float:
    """A positive number of seconds."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is no positive number of seconds")
    return value


def _print(report: GoodputReport) -> None:
    for warning in report.warnings:
        warn(warning)
    if not report.found:
        print(report.summary)
        return
    print(f"job {report.job_name}: {report.summary}\n")
    rows = [("productive", report.productive_seconds)]
    rows += sorted(report.badput_seconds.items(), key=lambda row: -row[1])
    rows += [(f"custom {name}", spent) for name, spent in report.custom_badput_seconds.items()]
    for name, spent in rows:
        if spent:
            note = "  (beside the steps: not counted)" if name == "data_loading_async" else ""
            print(f"{name:<42}{spent:>14.6g} s {spent / report.total_seconds:>7.2%}{note}")
    if report.deviation:
        figures = report.deviation.document()
        print(
            f"\nsteps: ideal {report.deviation.ideal:.6g} s, away from it by {figures['mean_abs']:.6g} s on average, "
            f"{figures['p90']:.6g} s at the 90th percentile, {figures['max']:.6g} s at most"
        )
    for size, window in report.windows:
        print(f"last {size:.6g} s: {window.summary}")
