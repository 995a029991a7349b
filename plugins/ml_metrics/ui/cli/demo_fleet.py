"""`ml-metrics demo --fleet`: 36 nights of 20 tests, made up, and judged, recorded and told as real ones are.

They have a folder of their own, so nothing of them is among the user's runs.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from ml_metrics.alerts import MailSettings, Outbox, RunMessages
from ml_metrics.config.definition import TestDefinition
from ml_metrics.core.airflow_options import airflow_home
from ml_metrics.core.kinds import kind_of
from ml_metrics.core.model import JobStatus, Metric, Run, Workload
from ml_metrics.core.settings import Settings
from ml_metrics.measure import Collected, ContainerLog, Role, write_log, write_logs
from ml_metrics.pipeline import RunState, steps
from ml_metrics.store.run_folder import RunFolder
from ml_metrics.ui.cli.report import write_report
from ml_metrics.warehouse import Warehouse, open_warehouse, sqlite_address

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

    def is_wrong(self, ago: int) -> bool:
        return self.until <= ago <= self.since


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
        tests = [story.name for story in STORIES]
        for _ in write_report(warehouse, str(folder / "pages"), tests, {}, now):
            pass
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
    wrong = story.is_wrong(ago)
    status, detail = FAILURES[story.failure] if wrong and story.failure else (JobStatus.SUCCESS, None)
    folder.write("run", {name: getattr(run, name) for name in Run.__dataclass_fields__})
    folder.write_workload(
        Workload(
            status,
            story.failure if wrong and story.failure else None,
            detail,
            queued_at=ended - timedelta(minutes=44),
            started_at=None
            if status is JobStatus.MISSED
            else ended - timedelta(minutes=41, seconds=random.randrange(90)),
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
    state = RunState(folder)
    steps.judge(test, run, state, warehouse)
    steps.load(test, run, state, warehouse)
    steps.decide(state, dict.fromkeys(steps.TASKS[:-1], "success"))
    _tell(test, run, RunState(folder), warehouse, ended)


def _measured(values: Mapping[str, float], ended: datetime) -> dict[str, Any]:
    """As the document of a step."""
    kinds = {name: kind_of(name) for name in values}
    metrics = [
        Metric(
            name, value, name, "final", wall_time=ended.timestamp(), unit=kinds[name].unit, better=kinds[name].better
        )
        for name, value in values.items()
    ]
    return Collected(tuple(metrics)).document()


def _tell(test: TestDefinition, run: Run, state: RunState, warehouse: Warehouse, ended: datetime) -> None:
    """Send what is due about a run, and change its incident at the time of the run."""
    settings = Settings.load()
    outbox = Outbox(settings.outbox)
    mail = MailSettings(
        (outbox,), outbox, settings.dashboard_url, mails_per_hour=1000, storage_root=settings.storage_root
    )
    decision = RunMessages(run, state, warehouse, mail).due(test)
    if decision is None:
        return
    outbox.send(decision.message, 10)
    change = decision.incident
    if change is not None and change.kind == "report":
        warehouse.incidents.report(
            test.name, run.key, fingerprint=change.fingerprint, reasons=change.reasons, at=ended, cause=change.cause
        )
    elif change is not None:
        warehouse.incidents.close(test.name, run.key, at=ended)
