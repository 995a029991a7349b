"""`ml-metrics demo`: the story of one test on this machine."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ml_metrics import steps, storage
from ml_metrics.errors import MlMetricsError
from ml_metrics.settings import Settings

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from ml_metrics.warehouse import Warehouse

ABOUT = """\
Tell the story of one test: a small network that learns to read digits must reach an accuracy of 0.96.

Trained for one epoch it does not: the run turns red and a mail says why. Trained for ten it does: the run is green,
and a second mail says that the test is well again. Both are real Airflow runs (`airflow dags test`) of
include/metric_configs/mnist-cpu.yaml; the workload runs in a pod of the local cluster.
"""

TEST = "tf-mnist-example-cpu"
LOGGER = re.compile(r" \[[\w.]+\] loc=.*")
"""What Airflow adds to a line of the workload: who logged it, and where."""
METRIC = "epoch_sparse_categorical_accuracy_final"


class DemoError(MlMetricsError):
    """The story did not go as it should. The environment is not what `make install` makes."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The story has no options."""
    parser.epilog = "example:\n  ml-metrics demo"


def run(arguments: argparse.Namespace) -> int:  # noqa: ARG001  (the same for every command)
    """Tell it, and check on the way that it is true."""
    from ml_metrics.warehouse import open_warehouse

    os.environ["AIRFLOW__ML_METRICS__MAILS_PER_HOUR"] = "1000"  # who watches for the sixth time still sees the mails
    settings, clock = Settings.load(), Clock()
    with open_warehouse(f"sqlite:///{settings.warehouse_file}") as warehouse:
        clock.say(f"1 of 2: {TEST} with --train_epochs=1")
        if train(1, clock):
            raise DemoError(f"{TEST} was green after one epoch; it should not reach 0.96 so early")
        broken = mail(warehouse, settings, "broken")
        clock.say("the run is red, and a mail says why")
        clock.say(f"2 of 2: {TEST} with --train_epochs=10")
        if not train(10, clock):
            raise DemoError(f"{TEST} was red after ten epochs; `airflow dags test {TEST}` shows why")
        recovered = mail(warehouse, settings, "recovered")
        clock.say("the run is green, and a mail says that the test is well again")
        chart = draw_chart(warehouse, settings)
        for line in the_end(warehouse, broken, recovered, chart):
            print(line)
    return 0


class Clock:
    """Says what happens, and how long after the start."""

    def __init__(self) -> None:
        self.start = time.monotonic()

    def say(self, what: str) -> None:
        """A line of progress."""
        minutes, seconds = divmod(int(time.monotonic() - self.start), 60)
        print(f"{minutes}:{seconds:02}  {what}", flush=True)


def train(epochs: int, clock: Clock) -> bool:
    """Run the test through Airflow, telling what it does. True if the run is green."""
    words = ["dags", "test", TEST, "--conf", json.dumps({"train_epochs": epochs})]
    with subprocess.Popen(
        ["airflow", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        log = list(tell(process, clock))
    if not any("assert_success" in line for line in log):
        sys.stderr.writelines(log[-40:])
        raise DemoError(f"`airflow {' '.join(words)}` ended before the test did; its last lines are above")
    return process.returncode == 0


def tell(process: subprocess.Popen[str], clock: Clock) -> Iterator[str]:
    """Every line that Airflow prints, saying on the way those that a person wants to hear."""
    task = ""
    for line in process.stdout or ():
        yield line
        found = next((name for name in steps.TASKS if f"task_id={name}" in line or f".{name} " in line), task)
        if found != task:
            task = found
            clock.say(f"    {task}")
        if "[base]" in line:
            clock.say(f"      {LOGGER.sub('', line.split('[base]', 1)[1]).strip()}")


def mail(warehouse: Warehouse, settings: Settings, occasion: str) -> Path:
    """The mail that the newest run must have sent."""
    (newest,) = warehouse.runs.newest(TEST, limit=1)
    alert = warehouse.incidents.find_open(TEST)
    if (occasion == "broken") != (alert is not None):
        raise DemoError(f"the alert of {TEST} should be {'open' if occasion == 'broken' else 'closed'} now")
    # where an earlier demo was interrupted, the mail about its run still stands for the trouble
    path = Path(settings.outbox, f"{alert.opened_by if alert else newest.uuid}-{occasion}.eml")
    if not path.exists():
        raise DemoError(f"there is no mail {path}")
    return path


def draw_chart(warehouse: Warehouse, settings: Settings) -> Path:
    """The accuracy of every run so far, in its bounds."""
    from ml_metrics.charts import as_svg, metric_chart
    from ml_metrics.reports.picture import plotted

    points = [plotted(one) for one in warehouse.metrics.values(TEST, METRIC)]
    path = Path(settings.outbox).with_name("charts") / f"{TEST}-{METRIC}.svg"
    storage.write_bytes(str(path), as_svg(metric_chart(f"{TEST}: {METRIC}", points)).encode())
    return path


def the_end(warehouse: Warehouse, broken: Path, recovered: Path, chart: Path) -> Iterator[str]:
    """What there is to look at now, each line something to act on."""
    yield ""
    yield "The last two rows of job_history:"
    for job in warehouse.runs.newest(TEST, limit=2):
        yield f"  {job.timestamp:%Y-%m-%d %H:%M:%S}  {job.job_status:<8} verdict {job.verdict:<5} run {job.uuid}"
    yield f"The last two rows of metric_history for {METRIC}:"
    for one in warehouse.metrics.values(TEST, METRIC, limit=2):
        yield f"  {one.timestamp:%Y-%m-%d %H:%M:%S}  {one.value:.4f}  {one.verdict:<5} ({one.rule})"
    yield ""
    yield f"The mail about the first run:   {broken}"
    yield f"The mail about the second run:  {recovered}"
    yield f"The chart of the accuracy:      {chart}"
    here = f"AIRFLOW_HOME={os.environ['AIRFLOW_HOME']} {sys.argv[0]}" if "AIRFLOW_HOME" in os.environ else sys.argv[0]
    yield f"Every run of the test:          {here} history {TEST}"
    yield f"Its file, to change it:         {Settings.load().config_root}/mnist-cpu.yaml"
    yield "The same in Airflow's UI:       make up"
