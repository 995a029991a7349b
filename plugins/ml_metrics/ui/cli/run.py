"""Run a test once, and print its verdict, what each judged metric is compared with, why it failed, and where to look.
Exit code 1: the run did not pass.

A run with another parameter is a trial, without an alert, unless --as-real is given. Where a scheduler of Airflow runs
and the DAG is not paused, it does the run, and else this process (`airflow dags test`).

examples:
  ml-metrics run tf-mnist-example-cpu
  ml-metrics run tf-mnist-example-cpu --param train_epochs=1 --as-real
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

from ml_metrics.alerts import folder_of
from ml_metrics.config.definition import TestDefinition
from ml_metrics.config.document import SUFFIXES
from ml_metrics.config.loading import load_file, load_test, load_tests
from ml_metrics.config.params import NO, RUN_OVERRIDES, TRIAL, allowed_by_hand, check_program
from ml_metrics.core.errors import ConfigError, MlMetricsError
from ml_metrics.core.model import BROKEN, JobStatus, Outcome, Run, StoredMetric
from ml_metrics.core.settings import Settings
from ml_metrics.core.text import did_you_mean, printable
from ml_metrics.core.units import change, duration
from ml_metrics.judge import Reference
from ml_metrics.pipeline import RunState, steps
from ml_metrics.store import storage
from ml_metrics.store.markers import file_name
from ml_metrics.store.run_folder import RunFolder
from ml_metrics.ui.cli.arguments import Arguments, Parser, UsageError, add_flag, add_value, pair
from ml_metrics.ui.cli.chosen_warehouse import NothingRecordedError, add_warehouse, open_chosen
from ml_metrics.ui.cli.output import Progress, give, table
from ml_metrics.ui.dashboard.links import ServerLinks
from ml_metrics.ui.dashboard.page import Columns, shown_of
from ml_metrics.ui.dashboard.status_letters import why_of
from ml_metrics.warehouse import JobRow, Warehouse, references_of

TASK = re.compile(r"<TaskInstance: \S+\.(\w+) (\S+) \[")
"""What Airflow prints of a task that it runs: its name and the id of the run."""
WORKLOAD = "[base] "
LOG_ORIGIN = re.compile(r" \[[\w.]+\] loc=.*")
"""The logger and the source line that Airflow appends to a line of the workload."""
LAST_LINES = 12
"""Lines of Airflow's output that are shown if a run recorded nothing."""
MAX_METRICS = 500
METRIC = Columns("metric value lower upper unit verdict=outcome rule")


def add_arguments(parser: Parser) -> None:
    add_value(parser, "test", "TEST", "the name of the test, or its file")
    about = "another value (JSON, or else text) of one of its `params`, image or command; repeatable"
    add_value(parser, "--param", "NAME=VALUE", about, pair, action="append", default=[])
    add_flag(parser, "--as-real", "count and alert as a run of the night")
    add_flag(parser, "--watch", "print every line of the workload")
    add_warehouse(parser)


def run(arguments: Arguments) -> int:
    test = _name(arguments.test)
    conf = _conf(test, arguments, _definition(test))
    with Shown(watch=arguments.watch, quiet=arguments.json) as shown:
        ended = run_once(test, conf, shown.task, shown.line)
    result = None
    with suppress(NothingRecordedError), open_chosen(arguments) as warehouse:
        key = Run(test, test, ended.run_id, Settings.load().deployment).key
        if job := warehouse.runs.get(key) if ended.run_id else None:
            result = result_of(warehouse, job)
    if result is None:
        telling = [one for one in ended.lines if " [info " not in one][-LAST_LINES:]
        raise UsageError("\n".join([*telling, f"{test}: the run recorded nothing; see above why"]))
    give(arguments, result, lines_of(result))
    return 0 if result["passed"] and ended.green else 1


def _name(given: str) -> str:
    """The name of a test, also of the only one in a file that Airflow reads."""
    path, root = Path(given), Path(Settings.load().config_root)
    if not path.name.endswith(SUFFIXES) or not path.is_file():
        return given
    names = [one.name for one in load_file(path).tests]
    if not names:
        raise UsageError(f"{path} has no test: it is a metric config, which tests share")
    if not path.resolve().is_relative_to(root.resolve()):
        raise UsageError(f"{path} is not in {root}, where Airflow reads tests: copy it there, and run {names[0]}")
    if len(names) > 1:
        raise UsageError(f"{path} has {len(names)} tests; name one of them: {', '.join(names)}")
    return names[0]


def _definition(test: str) -> TestDefinition | None:
    """None if the test has no file here, but may be written in Python. Raises ConfigError if its file is invalid."""
    root = Settings.load().config_root
    try:
        return load_test(root, test)
    except ConfigError:
        if not Path(root).is_dir():
            return None
        found = load_tests(root)
        if any(problem.test == test for problem in found.problems):
            raise
        if near := did_you_mean(test, [one.name for one in found.tests]):
            raise UsageError(f"no test {test!r}{near}") from None
        return None


def _conf(test: str, arguments: Arguments, definition: TestDefinition | None) -> dict[str, Any]:
    given = {name: _value(text) for name, text in arguments.param}
    if definition is not None:
        known = {**RUN_OVERRIDES, **definition.params}
        for name in given:
            if name not in known:
                own = ", ".join(definition.params) or "none"
                near = did_you_mean(name, known) or f"; its params: {own}"
                raise UsageError(f"{test} has no parameter {name!r}{near}")
        allowed = allowed_by_hand(definition.by_hand, Settings.load().by_hand)
        check_program(given, definition.params, allowed)
        texts = dict(arguments.param)
        usual = {name: one.default for name, one in definition.params.items()}
        given = {name: _fitting(name, texts[name], value, usual.get(name)) for name, value in given.items()}
    return {**given, TRIAL: NO} if arguments.as_real else given


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _fitting(name: str, text: str, value: Any, usual: Any) -> Any:
    """As the usual value is: `5` may be a text. Airflow checks the rest of the parameter's schema."""
    if isinstance(usual, str):
        return text
    if isinstance(usual, bool | int | float) and isinstance(value, str):
        raise UsageError(f"--param {name}: {value!r} is not of the type of {usual!r}")
    return value


@dataclass(frozen=True, slots=True)
class Ended:
    """A run of Airflow."""

    run_id: str
    """Empty if none began."""
    green: bool
    lines: Sequence[str]
    """What Airflow printed."""


def run_once(test: str, conf: Mapping[str, Any], task: Callable[[str], None], line: Callable[[str], None]) -> Ended:
    """Run a test in Airflow, and tell each task that begins and each line of the workload."""
    environment = {**os.environ, "PATH": path_with_airflow()}
    command = [sys.executable, "-m", "ml_metrics.airflow.by_hand", test, json.dumps(conf)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=environment
    ) as process:
        lines, run_id, begun = [], "", ""
        for printed in process.stdout or ():
            lines.append(printed.rstrip("\n"))
            if (found := TASK.search(printed)) and found[1] in steps.TASKS and found[1] != begun:
                begun, run_id = found[1], found[2]
                task(begun)
            if WORKLOAD in printed:
                line(LOG_ORIGIN.sub("", printed.split(WORKLOAD, 1)[1]).strip())
    return Ended(run_id, process.returncode == 0, lines)


def path_with_airflow() -> str:
    """The programs of this environment come first: it may not be activated."""
    return f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"


class Shown:
    """The progress of a run: a line for each task, and on a terminal the newest line of the workload below it."""

    def __init__(self, *, watch: bool = False, quiet: bool = False) -> None:
        self._start, self._watch, self._quiet = time.monotonic(), watch, quiet
        self._progress = Progress()

    def __enter__(self) -> Self:
        self._progress.show("Airflow starts ...")
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.__exit__()

    def task(self, name: str) -> None:
        if not self._quiet:
            self._progress.__exit__()
            print(self._timed(name.replace("_", " ")), flush=True)

    def line(self, text: str) -> None:
        if self._watch and not self._quiet:
            self._progress.__exit__()
            print(self._timed(f"  {text}"), flush=True)
        else:
            self._progress.show(self._timed(f"  {text}"))

    def _timed(self, text: str) -> str:
        minutes, seconds = divmod(int(time.monotonic() - self._start), 60)
        return f"{minutes}:{seconds:02}  {text}"


def result_of(warehouse: Warehouse, job: JobRow) -> dict[str, Any]:
    """What the report of a run is made of."""
    rows = warehouse.metrics.page_of_run(job.place, MAX_METRICS)
    broken = [row for row in rows if row.outcome in BROKEN]
    judged = [*broken, *(row for row in rows if row.rule and row.outcome not in BROKEN)]
    references = references_of(warehouse, job.place, judged)
    folder, settings = folder_of(job), Settings.load()
    messages = warehouse.messages.since(job.timestamp - timedelta(days=1), job.test_name)
    own = [
        storage.join(settings.outbox, f"{file_name(one.message)}.eml") for one in messages if one.run_key == job.uuid
    ]
    look = {
        "page": f"{settings.dashboard_url}/{ServerLinks().run(job.uuid, job.test_name)}",
        "history": f"ml-metrics history {job.test_name}",
        "files": str(folder.path) if folder else "",
        "mail": next(filter(storage.exists, own), ""),
    }
    is_good = job.job_status == JobStatus.SUCCESS
    return {
        "run": asdict(job),
        "verdict": job.verdict or "recorded" if is_good else str(job.job_status),
        "passed": is_good and job.verdict != Outcome.FAIL,
        "why": why_of(warehouse, job, judged, references),
        "metrics": [_metric(row, references.get(row.metric)) for row in judged],
        "unconfirmed": _unconfirmed(folder),
        "look": {name: place for name, place in look.items() if place},
    }


def _unconfirmed(folder: RunFolder | None) -> list[dict[str, Any]]:
    """What alerts only if further runs confirm it, as far as the run folder is here."""
    try:
        judgement = RunState(folder).judgement if folder else None
    except MlMetricsError:
        return []
    return [asdict(one) for one in judgement.unconfirmed] if judgement else []


def _metric(row: StoredMetric, reference: Reference | None) -> dict[str, Any]:
    percent = reference.percent(row.value) if reference else None
    return {
        **METRIC.document(row),
        "reference": reference.level if reference else None,
        "percent": percent,
        "shown": shown_of(row, change=change(percent)),
    }


def lines_of(result: Mapping[str, Any]) -> Iterator[str]:
    job = result["run"]
    trial = ", a trial: without an alert, and no run is compared with it" if job["trial"] else ""
    state = result["verdict"].replace("_", " ").upper()
    yield f"\n{state}  {job['test_name']}, {duration(job['job_duration_sec'])}{trial}"
    if result["metrics"]:
        rows = [(one["metric"], *one["shown"].values()) for one in result["metrics"]]
        yield f"\n{table(('metric', 'value', 'bounds', 'change', 'verdict'), rows, right=(1, 3))}"
    elif job["job_status"] == JobStatus.SUCCESS:
        yield "No condition covers any metric of this run: nothing was judged."
    yield ""
    if result["why"] and not result["passed"]:
        yield f"why      {printable(result['why'])}"
    for one in result["unconfirmed"]:
        so_far = f"{one['broken']} of {one['required']} runs"
        yield f"alert    none: {printable(one['metric'])} is not yet confirmed: {so_far}"
    for name, place in result["look"].items():
        yield f"{name:<8} {printable(place)}"
