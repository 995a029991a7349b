"""Run one test twice: a small network that learns to read digits must reach an accuracy of 0.96.

Trained for one epoch it fails: the run is red, and a mail gives the reason. Trained for ten epochs it passes: the run
is green, and a second mail reports the recovery. Both are real Airflow runs of mnist-cpu.yaml,
from the folder of test files or the installed package; the workload runs in a pod of the local cluster. It takes about
two minutes. An installed package needs the extra `demo` (docs/install.md).

With --fleet, it makes up the runs of 20 tests in 36 nights, in a folder of their own, and judges, records and tells
them as real ones: a level that shifts, a job out of memory, an eviction, a metric that is missing, one that recovers.

examples:
  ml-metrics demo
  ml-metrics demo --fleet
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path

from ml_metrics.core.airflow_options import airflow_home, airflow_option
from ml_metrics.core.errors import MlMetricsError
from ml_metrics.core.extras import included, require
from ml_metrics.core.settings import Settings
from ml_metrics.store import storage
from ml_metrics.store.markers import file_name
from ml_metrics.ui.cli.arguments import Arguments, Parser
from ml_metrics.ui.cli.run import path_with_airflow, run_once
from ml_metrics.warehouse import Warehouse

TEST_FILE = "mnist-cpu.yaml"
DAG_FILE = '''"""An Airflow DAG for the test of `ml-metrics demo`."""

from ml_metrics import load_tests

load_tests(globals(), own_dags=False)
'''


class DemoError(MlMetricsError):
    """The demo took another course than it should."""


def prepare() -> bool:
    """Make this process and its children find the example test. Returns whether it is the user's own copy."""
    os.umask(0o077)
    os.environ["PATH"] = path_with_airflow()
    own = Path(Settings.load().config_root, TEST_FILE).is_file()
    if not own:
        _use_included_files()
    _make_database()
    return own


def _use_included_files() -> None:
    dags = airflow_home() / "ml_metrics" / "demo" / "dags"
    storage.write_bytes(str(dags / "tests.py"), DAG_FILE.encode())
    os.environ |= {
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__ML_METRICS__CLUSTER": "local",
        "AIRFLOW__ML_METRICS__CONFIG_ROOT": str(included("metric_configs")),
        "AIRFLOW__ML_METRICS__LOCAL_IMAGE": str(included("workloads").parents[1]),
    }


def _make_database() -> None:
    address = airflow_option("database", "sql_alchemy_conn") or f"sqlite:///{airflow_home() / 'airflow.db'}"
    file, _, _ = address.removeprefix("sqlite:///").partition("?")
    if not address.startswith("sqlite:///") or Path(file).exists():
        return
    done = subprocess.run(["airflow", "db", "migrate"], capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        sys.stderr.writelines(done.stderr.splitlines(keepends=True)[-20:])
        raise DemoError("`airflow db migrate` failed; its last lines are above")


TEST = "tf-mnist-example-cpu"
METRIC = "epoch_sparse_categorical_accuracy_final"


def add_arguments(parser: Parser) -> None:
    about = "make the runs of 20 tests in 36 nights up instead: pages, mails and an inbox with something in it"
    parser.add_argument("--fleet", action="store_true", help=about)


def run(arguments: Arguments) -> int:
    if arguments.fleet:
        return show_fleet()
    from ml_metrics.airflow import cluster_kubeconfig
    from ml_metrics.warehouse import open_warehouse, sqlite_address

    require("demo", "the demo")
    own = prepare()
    cluster_kubeconfig()  # raises ClusterError if the local cluster cannot start, before anything runs
    os.environ["AIRFLOW__ML_METRICS__MAILS_PER_HOUR"] = "1000"  # every demo of an hour sends its mails
    settings, log = Settings.load(), partial(log_progress, time.monotonic())
    with open_warehouse(sqlite_address(settings.warehouse_file), deployment=settings.deployment) as warehouse:
        log(f"1 of 2: {TEST} with --train_epochs=1")
        if train(1, log):
            raise DemoError(f"{TEST} passed after one epoch; it should not reach 0.96 so early")
        broken = mail(warehouse, settings, "broken")
        log("the run is red, and a mail gives the reason")
        log(f"2 of 2: {TEST} with --train_epochs=10")
        if not train(10, log):
            raise DemoError(f"{TEST} failed after ten epochs; `ml-metrics history {TEST}` shows why")
        recovered = mail(warehouse, settings, "recovered")
        log("the run is green, and a mail reports the recovery")
        chart = draw_chart(warehouse, settings)
        for line in summary(warehouse, broken, recovered, chart, own=own):
            print(line)
    return 0


def show_fleet() -> int:
    from ml_metrics.ui.cli.demo_fleet import make_fleet

    folder = make_fleet(partial(log_progress, time.monotonic()))
    print(f"""
The runs are made up, and judged, recorded and told as real ones are.
The pages:       {folder}/pages/inbox.html
The mails:       {folder}/mails
At a terminal:   ml-metrics tests --warehouse sqlite:///{folder}/warehouse.db
In a dashboard:  AIRFLOW__ML_METRICS__WAREHOUSE_FILE={folder}/warehouse.db \\
                 AIRFLOW__ML_METRICS__STORAGE_ROOT={folder}/runs make up""")
    return 0


def log_progress(start: float, line: str) -> None:
    minutes, seconds = divmod(int(time.monotonic() - start), 60)
    print(f"{minutes}:{seconds:02}  {line}", flush=True)


def train(epochs: int, log: Callable[[str], None]) -> bool:
    """True if the run is green."""
    given = {"train_epochs": epochs, "trial": "no"}  # a run with another parameter would be a trial, without an alert
    ended = run_once(TEST, given, lambda task: log(f"    {task}"), lambda line: log(f"      {line}"))
    if not any("assert_success" in line for line in ended.lines):
        sys.stderr.writelines(f"{line}\n" for line in ended.lines[-40:])
        raise DemoError(f"the run with {epochs} epochs ended before the test did; its last lines are above")
    return ended.green


def mail(warehouse: Warehouse, settings: Settings, occasion: str) -> Path:
    """The one about the newest run. Raises DemoError if there is none."""
    (newest,) = warehouse.runs.newest(TEST, limit=1)
    alert = warehouse.incidents.find_open(TEST)
    if (occasion == "broken") != (alert is not None):
        raise DemoError(f"the alert of {TEST} should be {'open' if occasion == 'broken' else 'closed'} now")
    # after an interrupted demo, the alert is still open, and the mail is the one about the interrupted demo's run
    recent = warehouse.messages.since(newest.timestamp - timedelta(days=1), TEST)
    of_run = [one.message for one in recent if (one.run_key, one.occasion) == (newest.uuid, occasion)]
    key = alert.opened_by if alert else next(iter(of_run), "")
    path = Path(settings.outbox, f"{file_name(key)}.eml")
    if not path.exists():
        raise DemoError(f"there is no mail {path}")
    return path


def draw_chart(warehouse: Warehouse, settings: Settings) -> Path:
    from ml_metrics.alerts import failed_runs
    from ml_metrics.alerts.charts import as_svg, metric_chart

    points = warehouse.metrics.values(TEST, METRIC)
    path = Path(settings.outbox).with_name("charts") / f"{TEST}-{METRIC}.svg"
    storage.write_bytes(
        str(path), as_svg(metric_chart(f"{TEST}: {METRIC}", points, excluded=failed_runs(points))).encode()
    )
    return path


def summary(warehouse: Warehouse, broken: Path, recovered: Path, chart: Path, *, own: bool) -> Iterator[str]:
    yield ""
    yield "The last two rows of job_history:"
    for job in warehouse.runs.newest(TEST, limit=2):
        yield f"  {job.timestamp:%Y-%m-%d %H:%M:%S}  {job.job_status:<8} verdict {job.verdict:<5} run {job.uuid}"
    yield f"The last two rows of metric_history for {METRIC}:"
    for one in warehouse.metrics.values(TEST, METRIC, limit=2):
        yield f"  {one.timestamp:%Y-%m-%d %H:%M:%S}  {one.value:.4f}  {one.outcome:<5} ({one.rule})"
    yield ""
    yield f"The mail about the first run:   {broken}"
    yield f"The mail about the second run:  {recovered}"
    yield f"The chart of the accuracy:      {chart}"
    here = f"AIRFLOW_HOME={os.environ['AIRFLOW_HOME']} {sys.argv[0]}" if "AIRFLOW_HOME" in os.environ else sys.argv[0]
    yield f"Every run of the test:          {here} history {TEST}"
    yield f"The test file:                  {Settings.load().config_root}/{TEST_FILE}"
    if own:
        yield "The same in Airflow's UI:       make up"
