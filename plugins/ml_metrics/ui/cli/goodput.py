"""Measure how much of a job's time was productive, and where the rest went. Exit code 1: LOG holds no job.

LOG is a goodput log, a run folder with one, or, with --job, cloud-logging://PROJECT/LOG, which ml-goodput-measurement
wrote.

examples:
  ml-metrics goodput gs://bucket/runs/my-test/5f0c --json
  ml-metrics goodput cloud-logging://my-project/goodput_my-run --job my-run
  ml-metrics goodput goodput.jsonl --from 2026-01-05T08:00Z --window 3600
  ml-metrics goodput runs/my-test/5f0c --follow --gcp-project-id my-project
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from ml_metrics.core.errors import MlMetricsError, UnreadableInputError
from ml_metrics.core.text import printable
from ml_metrics.core.units import SECONDS, quantity
from ml_metrics.measure.cloud import CloudLogger, GCPOptions
from ml_metrics.measure.goodput import Options, Part, Uploader, measure
from ml_metrics.store import storage
from ml_metrics.ui.cli.arguments import Arguments, Parser, UsageError, add_flag, add_json, add_value, moment, seconds
from ml_metrics.ui.cli.output import give, warn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ml_metrics.measure.goodput import GoodputReport


CLOUD = "cloud-logging://"


def add_arguments(parser: Parser) -> None:
    add_value(parser, "log", "LOG", "a goodput log, or a folder with one")
    add_value(parser, "--from", "T", "ignore what is before", moment, dest="start")
    add_value(parser, "--to", "T", "ignore what is after", moment, dest="end")
    about = "also measure the last S seconds; repeatable"
    add_value(parser, "--window", "S", about, seconds, action="append", default=[])
    add_value(parser, "--ideal-step-time", "S", "how many seconds a step should take", seconds)
    add_flag(parser, "--no-stalls", "count long steps as productive, too")
    add_value(parser, "--job", "NAME", "the job, if the log holds several", str)
    add_flag(parser, "--follow", "print a line at each interval until the job ends")
    add_value(parser, "--interval", "S", "seconds between the lines of --follow; default: 30", seconds, default=30.0)
    add_value(parser, "--tensorboard", "DIR", "write scalars there")
    add_json(parser)
    cloud = parser.add_argument_group("Google Cloud Monitoring", "Send the result there, once or with --follow.")
    add_value(cloud, "--gcp-project-id", "P", "the project; without it, nothing is sent")
    add_value(cloud, "--gcp-location", "L", "the zone or region of the job")
    add_value(cloud, "--gcp-replica-id", "R", "default: 0", default="0")
    add_value(cloud, "--gcp-acc-type", "A", "such as TPU-v5p")
    add_value(cloud, "--gcp-cluster-name", "C", "the cluster")
    add_flag(cloud, "--no-gcp-goodput-metrics", "do not send goodput and badput")
    add_flag(cloud, "--no-gcp-step-deviation-metrics", "do not send step deviation")


def run(arguments: Arguments) -> int:
    log = arguments.log
    if log.startswith(CLOUD):
        if not arguments.job:
            raise UsageError(f"{log}: choose a job of this log with --job NAME")
    elif storage.is_local(log) and not storage.local_path(log).exists():
        raise UnreadableInputError(f"{log}: there is no such file or folder")
    report = _followed(arguments) if arguments.follow else _measured(arguments)
    give(arguments, report.document(), [report.summary] if arguments.follow else _lines(report))
    return 0 if report.found else 1


def _measured(arguments: Arguments) -> GoodputReport:
    report = measure(
        _cloud_log(arguments) or arguments.log,
        ideal_step_time=arguments.ideal_step_time,
        windows=arguments.window,
        start=arguments.start and arguments.start.timestamp(),
        end=arguments.end and arguments.end.timestamp(),
        job_name=arguments.job,
        stalls=not arguments.no_stalls,
    )
    if arguments.tensorboard is not None and report.found:
        from ml_metrics.measure.goodput import TensorBoard

        TensorBoard(arguments.tensorboard).write(report, set(Part))
    gcp = _gcp_options(arguments)
    if gcp is not None:
        from ml_metrics.measure.cloud import CloudMonitoring

        CloudMonitoring(report.job_name or "", gcp).write(report, set(Part))
    return report


def _followed(arguments: Arguments) -> GoodputReport:
    log, gcp = _cloud_log(arguments), _gcp_options(arguments)
    options = Options(
        folder=arguments.log,
        job_name=arguments.job,
        tensorboard_dir=arguments.tensorboard,
        intervals=dict.fromkeys(Part, arguments.interval),
        ideal_step_time=arguments.ideal_step_time,
        windows=tuple(dict.fromkeys(arguments.window)),
        stalls=not arguments.no_stalls,
        source=None if log is None else log.factory_spec(arguments.job),
        export=None if gcp is None else gcp.factory_spec(arguments.job or _job_in(arguments.log)),
    )
    uploader = Uploader(options)
    report = uploader.upload()
    with suppress(KeyboardInterrupt):
        while not report.ended:
            if not arguments.json:
                print(report.summary, flush=True)
            time.sleep(arguments.interval)
            try:
                report = uploader.upload()
            except MlMetricsError as error:  # a bucket that is not reachable now may be at the next interval
                warn(str(error))
    return report


def _job_in(log: str) -> str:
    """The name that the series in Cloud Monitoring carry."""
    job = measure(log).job_name
    if job is None:
        raise UnreadableInputError(f"{log}: has no job name yet: give --job NAME")
    return job


def _cloud_log(arguments: Arguments) -> CloudLogger | None:
    return CloudLogger.at(arguments.log, arguments.job) if arguments.log.startswith(CLOUD) else None


def _gcp_options(arguments: Arguments) -> GCPOptions | None:
    if arguments.gcp_project_id is None:
        return None
    return GCPOptions(
        project_id=arguments.gcp_project_id,
        location=arguments.gcp_location,
        replica_id=arguments.gcp_replica_id,
        acc_type=arguments.gcp_acc_type,
        cluster_name=arguments.gcp_cluster_name,
        enable_gcp_goodput_metrics=not arguments.no_gcp_goodput_metrics,
        enable_gcp_step_deviation_metrics=not arguments.no_gcp_step_deviation_metrics,
    )


def _lines(report: GoodputReport) -> Iterator[str]:
    for warning in report.warnings:
        warn(warning)
    if not report.found:
        yield report.summary
        return
    yield f"job {printable(report.job_name or '')}: {report.summary}\n"
    rows = [("productive", report.productive_seconds)]
    rows += sorted(report.badput_seconds.items(), key=lambda row: -row[1])
    rows += [(f"custom {printable(name)}", spent) for name, spent in report.custom_badput_seconds.items()]
    for name, spent in rows:
        if spent:
            note = "  (overlaps the steps: not counted)" if name == "data_loading_async" else ""
            yield f"{name:<42}{quantity(spent, SECONDS):>16} {spent / report.total_seconds:>7.2%}{note}"
    yield from _remarks(report)
    for size, window in report.windows:
        yield f"last {quantity(size, SECONDS)}: {window.summary}"


def _remarks(report: GoodputReport) -> Iterator[str]:
    if report.clock:
        yield f"\n{printable(report.clock)}"
    if report.hosts:
        yield f"\n{printable(report.hosts.summary)}"
    if report.stalls:
        longest = sorted(report.stalls, key=lambda stall: -stall.seconds)[:5]
        named = ", ".join(f"step {stall.step} by {quantity(stall.seconds, SECONDS)}" for stall in longest)
        more = len(report.stalls) - len(longest)
        yield f"\nstalls, beyond any usual step: {named}{f', and {more} more' if more else ''}"
    if report.deviation:
        figures = report.deviation.document()
        away = (figures[name] for name in ("mean_abs", "p90", "max"))
        ideal, mean, p90, most = (quantity(seconds, SECONDS) for seconds in (report.deviation.ideal, *away))
        yield (
            f"\nsteps: ideal {ideal}, away from it by {mean} on average, {p90} at the 90th percentile, {most} at most"
        )
    if report.rate:
        rate = report.rate
        p50, p90, p99 = (quantity(seconds, SECONDS) for seconds in (rate.p50, rate.p90, rate.p99))
        speed = quantity(rate.per_second)
        yield f"step times: {p50} median, {p90} p90, {p99} p99; {speed} steps per second of productive time"
