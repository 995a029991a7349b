"""`ml-metrics judge`: judge one run's metrics by a config and a history."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from ml_metrics.cli.output import print_json
from ml_metrics.cli.verdict_table import alert_lines, verdict_lines
from ml_metrics.config.load import load_file
from ml_metrics.errors import UnreadableInputError
from ml_metrics.judge import history_needs, judge_run
from ml_metrics.judge.documents import read_history, read_metrics
from ml_metrics.judge.history import aware
from ml_metrics.model import JobStatus

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from ml_metrics.config.regression import RegressionTestConfig
    from ml_metrics.judge.documents import Measured
    from ml_metrics.model import HistoryPoint

ABOUT = """\
Judge the metrics of one run by the conditions of CONFIG and by the runs before
it.

CONFIG is a test file or a metric config. The metrics are what
`ml-metrics collect --json` prints, or {name: value}. The history is JSON lines
of {"uuid", "timestamp", "metric_name", "metric_value", "job_status",
"verdict"}; the run is taken to come after all of it, unless --at says
otherwise. Exit code 1: the run did not pass.

examples:
  ml-metrics judge vision.json --metrics metrics.json --history h.jsonl
  ml-metrics judge vision.json --metrics metrics.json --status failure --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("config", metavar="CONFIG", help="a test file or a metric config")
    parser.add_argument("--metrics", metavar="FILE", required=True, help="what the run measured")
    parser.add_argument("--history", metavar="FILE", help="the runs before it; without, this is the first run")
    parser.add_argument(
        "--status", choices=[str(each) for each in JobStatus], default="success", help="how the workload ended"
    )
    parser.add_argument("--test", metavar="NAME", default="", help="the test's name, if CONFIG does not tell it")
    parser.add_argument(
        "--run", metavar="UUID", default="", help="the run's key: its own rows in the history are left out"
    )
    parser.add_argument("--at", metavar="TIME", help="when the run ended (ISO 8601): later history is left out")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(arguments: argparse.Namespace) -> int:
    """Judge and print."""
    test, config = config_of(arguments.config, arguments.test)
    measured = read_metrics(arguments.metrics)
    history = history_of(arguments.history, test, config) if arguments.history else []
    judgement = judge_run(
        config,
        measured.metrics,
        history,
        status=JobStatus(arguments.status),
        run_key=arguments.run,
        now=_moment(arguments.at) if arguments.at else _after(history, measured),
        missing=measured.missing,
        test=test,
    )
    if arguments.json:
        print_json(judgement.document())
    else:
        for line in [*verdict_lines(judgement.verdicts), *alert_lines(judgement.alerts)]:
            print(line)
        print("passed" if judgement.passed else "did not pass")
    return 0 if judgement.passed else 1


def config_of(path: str, name: str) -> tuple[str, RegressionTestConfig]:
    """The name of the test that a file is about, and its conditions."""
    loaded = load_file(path)
    named = [test for test in loaded.tests if test.name == name] if name else list(loaded.tests)
    if len(named) == 1:
        return named[0].name, named[0].regression_test_config
    return name or loaded.path.stem, loaded.regression_test_config


def history_of(place: str, test: str, config: RegressionTestConfig) -> list[HistoryPoint]:
    """The history of a test. One that knows its tests and not this one would look like a test without a past."""
    history = read_history(place, test)
    found = {point.test for point in history}
    if found and found.isdisjoint(history_needs(config, test).tests):
        names = ", ".join(sorted(found))
        raise UnreadableInputError(f"{place}: holds no row of test {test}; name one of its tests by --test: {names}")
    return history


def _after(history: Sequence[HistoryPoint], measured: Measured) -> datetime:
    """A time for a run whose time nobody told: its newest point's, else now; and always after its history."""
    points = [metric.wall_time for metric in measured.metrics if metric.wall_time is not None]
    try:
        ended = datetime.fromtimestamp(max(points), UTC) if points else datetime.now(UTC)
    except (ValueError, OverflowError, OSError):
        ended = datetime.now(UTC)
    newest = max((point.timestamp for point in history), default=ended)
    return ended if ended > newest else newest + timedelta(microseconds=1)


def _moment(text: str) -> datetime:
    try:
        return aware(datetime.fromisoformat(text))
    except ValueError as error:
        raise UnreadableInputError(f"--at: {text!r} is no ISO 8601 time") from error
