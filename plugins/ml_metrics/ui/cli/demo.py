"""Run one test twice: a small network must reach an accuracy of 0.96. Trained for one epoch it fails, trained for ten
it passes, and a mail reports each.

Both are Airflow runs of mnist-cpu.yaml, in pods of the local cluster: about two minutes. An installed package needs the
extra `demo` (docs/install.md).

examples:
  ml-metrics demo
  ml-metrics demo --fleet
"""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from shlex import quote
from typing import Any

from ml_metrics.alerts import MailSettings, Outbox, RunNotifier
from ml_metrics.config.definition import TestDefinition
from ml_metrics.core.airflow_options import airflow_home, airflow_option
from ml_metrics.core.errors import MlMetricsError
from ml_metrics.core.extras import included, require
from ml_metrics.core.kinds import kind_of
from ml_metrics.core.model import JobStatus, Metric, Run, Workload
from ml_metrics.core.settings import Settings
from ml_metrics.measure import Collected, ContainerLog, Role, write_log, write_logs
from ml_metrics.pipeline import RunState, steps
from ml_metrics.store import storage
from ml_metrics.store.markers import file_name
from ml_metrics.store.run_folder import RunFolder
from ml_metrics.ui.cli.arguments import Arguments, Parser, add_flag
from ml_metrics.ui.cli.report import write_report
from ml_metrics.ui.cli.run import path_with_airflow, run_once
from ml_metrics.warehouse import Warehouse, open_warehouse, sqlite_address
from ml_metrics_telemetry.event_file import open_scalar_log
from ml_metrics_telemetry.scalars import FOLDER

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
        dags = airflow_home() / "ml_metrics" / "demo" / "dags"
        storage.write_bytes(str(dags / "tests.py"), DAG_FILE.encode())
        os.environ |= {
            "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__ML_METRICS__CLUSTER": "local",
            "AIRFLOW__ML_METRICS__CONFIG_ROOT": str(included("metric_configs")),
            "AIRFLOW__ML_METRICS__LOCAL_IMAGE": str(included("workloads").parents[1]),
        }
    _make_database()
    return own


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
    about = "make up 36 nights of 20 tests instead, in a folder of their own"
    add_flag(parser, "--fleet", about)


def run(arguments: Arguments) -> int:
    if arguments.fleet:
        return show_fleet()
    from ml_metrics.airflow import cluster_kubeconfig

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
        from ml_metrics.alerts import failed_runs
        from ml_metrics.alerts.charts import as_svg, metric_chart

        points = warehouse.metrics.values(TEST, METRIC)
        chart = Path(settings.outbox).with_name("charts") / f"{TEST}-{METRIC}.svg"
        drawn = metric_chart(f"{TEST}: {METRIC}", points, excluded=failed_runs(points))
        storage.write_bytes(str(chart), as_svg(drawn).encode())
        for line in summary(warehouse, broken, recovered, chart, own=own):
            print(line)
    return 0


def show_fleet() -> int:
    folder = make_fleet(partial(log_progress, time.monotonic()))
    print(f"""
The runs are made up, and judged, recorded and told as real ones are.
The pages:       {folder}/pages/inbox.html
The mails:       {folder}/mails
To look around:  export AIRFLOW__ML_METRICS__WAREHOUSE_FILE={quote(f"{folder}/warehouse.db")} \\
                 AIRFLOW__ML_METRICS__STORAGE_ROOT={quote(f"{folder}/runs")}
and then:        ml-metrics tests, or make up""")
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
    here = quote(sys.argv[0])
    if "AIRFLOW_HOME" in os.environ:
        here = f"AIRFLOW_HOME={quote(os.environ['AIRFLOW_HOME'])} {here}"
    yield f"Every run of the test:          {here} history {TEST}"
    yield f"The test file:                  {Settings.load().config_root}/{TEST_FILE}"
    if own:
        yield "The same in Airflow's UI:       make up"


NIGHTS = 36
NOISE = 0.004
"""By which share a value varies from night to night."""
VALUES = {
    "step_time_p50": 0.779,
    "accuracy_final": 0.912,
    "loss_final": 0.284,
    "peak_memory_bytes": 25.1e9,
    "tokens_per_second": 41_300.0,
}
PRICES = {"v5p-8": 16.8, "h100x8": 88.49, "v5litepod-16": 19.2, "l4": 0.71}
"""Of an hour, in dollars; as made up as the rest."""
LAST_STEP, STOPPED_AT = 3000, 1190
"""Of a run that trains to the end, and of one that fails before."""
OUT_OF_MEMORY = (
    "step 1180: loss 0.412",
    "step 1190: loss 0.409",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has 1.1 GiB free.",
)


@dataclass(frozen=True, slots=True)
class Story:
    """What becomes of a test, in nights ago."""

    name: str
    owner: str
    framework: str
    accelerator: str = "v5p-8"
    since: int = -1
    until: int = 0
    """Something is wrong from one night to another; never if the first is negative."""
    factors: Mapping[str, float] = field(default_factory=dict)
    """By what values change then."""
    failure: str = ""
    """With what the workload ends then."""
    missing: str = ""
    """The metric that is not written then."""
    changes_image: bool = False


STORIES = (
    Story("resnet50-train-v5p", "vision", "jax", since=7, factors={"step_time_p50": 1.084, "tokens_per_second": 0.923},
          changes_image=True),
    Story("vit-large-train-h100", "vision", "pytorch", "h100x8", since=4, factors={"accuracy_final": 0.962}),
    Story("llama3-8b-pretrain-h100", "language", "pytorch", "h100x8", since=1, failure="OOMKilled"),
    Story("llama3-70b-pretrain-v5p-with-checkpoints", "language", "jax", since=0, failure="Evicted"),
    Story("mixtral-finetune-h100", "language", "pytorch", "h100x8", since=2, missing="accuracy_final"),
    Story("gemma2-9b-train-v5e", "language", "jax", "v5litepod-16", since=12, until=9,
          factors={"step_time_p50": 1.31}),
    Story("whisper-finetune-h100", "speech", "pytorch", "h100x8", since=0, failure="ErrImagePull"),
    Story("conformer-train-v5e", "speech", "tf", "v5litepod-16", since=0, failure="ErrImagePull"),
    Story("tacotron-train-l4", "speech", "tf", "l4", since=5, factors={"peak_memory_bytes": 1.19},
          changes_image=True),
    Story("stable-diffusion-train-h100", "vision", "pytorch", "h100x8", since=20, until=18,
          factors={"accuracy_final": 0.93}),
    *(Story(f"{model}-{mode}-{chip}", owner, framework, accelerator)
      for model, owner, framework in (("bert-base", "language", "tf"), ("mnist", "platform", "jax"))
      for mode in ("train", "finetune")
      for chip, accelerator in (("v5e", "v5litepod-16"), ("h100", "h100x8"))),
    Story("dlrm-train-v5p", "platform", "tf"),
    Story("allreduce-bandwidth-v5p", "platform", "jax"),
)  # fmt: skip
FAILURES = {
    "OOMKilled": (JobStatus.FAILURE, "the container base was killed: it used more memory than its limit"),
    "Evicted": (JobStatus.FAILURE, "the node was low on resource: ephemeral-storage"),
    "ErrImagePull": (JobStatus.MISSED, "failed to pull image europe-docker.pkg.dev/ml/train:nightly: not found"),
}


def make_fleet(log: Callable[[str], None]) -> Path:
    """Make the runs, the mails and the pages, in place of those of an earlier call. Returns the folder."""
    folder = airflow_home() / "ml_metrics" / "demo-fleet"
    shutil.rmtree(folder, ignore_errors=True)
    os.environ |= {
        "AIRFLOW__ML_METRICS__STORAGE_ROOT": str(folder / "runs"),
        "AIRFLOW__ML_METRICS__WAREHOUSE_FILE": str(folder / "warehouse.db"),
        "AIRFLOW__ML_METRICS__OUTBOX": str(folder / "mails"),
    }
    now = datetime.now(UTC)
    with open_warehouse(sqlite_address(Settings.load().warehouse_file)) as warehouse:
        warehouse.ensure_schema()
        for ago in reversed(range(NIGHTS)):
            for number, story in enumerate(STORIES):
                ended = now - timedelta(days=ago, hours=2, minutes=7 * number)
                _run(story, ago, ended, warehouse)
            if ago % 12 == 0:
                log(f"{NIGHTS - ago} of {NIGHTS} nights")
        list(write_report(warehouse, str(folder / "pages"), [story.name for story in STORIES], {}, now))
    return folder


def _definition(story: Story) -> TestDefinition:
    return TestDefinition.model_validate(
        {
            "name": story.name,
            "framework": story.framework,
            "mode": "train",
            "accelerator": story.accelerator,
            "owner": f"{story.owner}-team",
            "emails": [f"{story.owner}@example.com"],
            "image": "europe-docker.pkg.dev/ml/train:nightly",
            "command": ["python3", "train.py"],
            "schedule": "0 3 * * *",
            "regression_test_config": {
                "metric_success_conditions": {
                    "step_time_p50": {"comparison": "less"},
                    "accuracy_final": {"comparison": "greater"},
                    "peak_memory_bytes": {"comparison": "less"},
                }
            },
        }
    )


def _run(story: Story, ago: int, ended: datetime, warehouse: Warehouse) -> None:
    """One run, from the documents that its workload leaves to the message about it."""
    test, settings = _definition(story), Settings.load()
    run = Run(story.name, story.name, f"scheduled__{ended:%Y-%m-%d}T03:00:00+00:00", settings.deployment)
    folder, random = RunFolder.of(run, settings.storage_root), Random(run.key)  # noqa: S311  (no secret)
    wrong = story.until <= ago <= story.since
    status, detail = FAILURES[story.failure] if wrong and story.failure else (JobStatus.SUCCESS, None)
    started = ended - timedelta(seconds=2460 + random.randrange(90))
    folder.write("run", {**asdict(run), "test_file": test.model_dump(mode="json", exclude_unset=True)})
    folder.write_workload(
        Workload(
            status,
            story.failure if wrong and story.failure else None,
            detail,
            queued_at=ended - timedelta(minutes=44),
            started_at=None if status is JobStatus.MISSED else started,
            ended_at=ended,
            pod=f"{story.name[:40]}-{ago}",
            node=f"node-{random.randrange(8)}",
            image=test.image,
            image_digest=f"train@sha256:{'bbbb' if wrong and story.changes_image else 'aaaa'}{'0' * 60}",
            memory_limit="64Gi",
            peak_memory_bytes=68_600_000_000 if story.failure == "OOMKilled" and wrong else None,
        )
    )
    if wrong and story.failure == "OOMKilled":
        base = ContainerLog(
            container="base", role=Role.WORKLOAD, attempt=1, exit_code=137, reason="OOMKilled", saved=True
        )
        write_log(folder, base.file, "\n".join(OUT_OF_MEMORY).encode())
        write_logs(folder, [base])
    factors = story.factors if wrong else {}
    values = {name: value * factors.get(name, 1.0) * random.gauss(1.0, NOISE) for name, value in VALUES.items()}
    values["total_wall_time"] = 2460 * random.gauss(1.0, NOISE)
    values["goodput"] = 93 * random.gauss(1.0, NOISE) / factors.get("step_time_p50", 1.0)
    cents = round(100 * PRICES[story.accelerator] * values["total_wall_time"] / 3600)
    productive = round(cents * values["goodput"] / 100)
    parts = {"cost_usd": cents, "cost_productive_usd": productive, "cost_stall_usd": cents - productive}
    bill = {name: part / 100 for name, part in parts.items()}
    bill["chip_hours"] = test.accelerator.count * values["total_wall_time"] / 3600
    if wrong:
        values.pop(story.missing, None)
    is_measured = status is JobStatus.SUCCESS
    folder.write("metrics", _measured(values if is_measured else {}, ended))
    folder.write("efficiency", _measured(bill if is_measured else {}, ended))
    if status is not JobStatus.MISSED and ago in {0, 1, story.since, story.since + 1}:
        _write_curves(folder, values, LAST_STEP if is_measured else STOPPED_AT, started, random)
    state = RunState(folder)
    steps.judge(test, run, state, warehouse)
    steps.load(test, run, state, warehouse)
    steps.decide(state, dict.fromkeys(steps.TASKS[:-1], "success"))
    _tell(test, run, RunState(folder), warehouse, ended)


def _write_curves(folder: RunFolder, values: Mapping[str, float], last: int, started: datetime, random: Random) -> None:
    """What the workload writes while it runs, which ends at the values of the run."""
    log = open_scalar_log(f"{folder.path}/{FOLDER}")
    for step in range(10, last + 1, 20):
        at, rest = started.timestamp() + step * values["step_time_p50"], math.exp(-step / 434)
        scalars = {"loss": values["loss_final"] * (1 + 7 * rest), "step_time": values["step_time_p50"]}
        if "accuracy_final" in values:
            scalars["train_accuracy"] = values["accuracy_final"] * (1 - rest)
        for tag, value in scalars.items():
            log.put((tag, value * random.gauss(1.0, NOISE), step, at))
    log.close()


def _measured(values: Mapping[str, float], ended: datetime) -> dict[str, Any]:
    """As the document of a step."""
    metrics = []
    for name, value in values.items():
        kind = kind_of(name)
        at = ended.timestamp()
        metrics.append(Metric(name, value, name, "final", wall_time=at, unit=kind.unit, better=kind.better))
    return Collected(tuple(metrics)).document()


def _tell(test: TestDefinition, run: Run, state: RunState, warehouse: Warehouse, ended: datetime) -> None:
    """Send what is due about a run, and change its incident at the time of the run."""
    settings = Settings.load()
    outbox = Outbox(settings.outbox)
    mail = MailSettings(
        (outbox,), outbox, settings.dashboard_url, mails_per_hour=1000, storage_root=settings.storage_root
    )
    decision = RunNotifier(run, state, warehouse, mail).due(test)
    if decision is None:
        return
    outbox.send(decision.message, 10)
    change = decision.incident
    if change is not None and change.kind == "report":
        warehouse.incidents.report(
            test.name,
            run.key,
            fingerprint=" ".join(change.reasons),
            reasons=change.reasons,
            at=ended,
            cause=change.cause,
        )
    elif change is not None:
        warehouse.incidents.close(test.name, run.key, at=ended)
