"""Whether the processes of Airflow share a disk, and which settings name a folder that only one of them would see.

Where tasks run on several machines, a file that one task writes is not there for the next. Nothing fails by itself
then: the run is green, and its rows, messages and documents are on three disks.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from ml_metrics.core.airflow_options import airflow_option
from ml_metrics.core.errors import ConfigError
from ml_metrics.core.settings import SECTION, Settings, is_on
from ml_metrics.store import storage

OUTBOX = "outbox"
ADVICE = f"or set [{SECTION}] shared_disk = yes if it is on a disk that all of them share"


def separate_disks(settings: Settings) -> str:
    """What puts tasks on disks of their own, in words such as `with CeleryExecutor`; empty if they share one."""
    if is_on(settings.shared_disk, "shared_disk"):
        return ""
    if "COMPOSER_ENVIRONMENT" in os.environ:
        return "on Cloud Composer"
    # Helm's chart tells the pods of tasks that their executor is the LocalExecutor
    if "AIRFLOW_IS_K8S_EXECUTOR_POD" in os.environ:
        return "with KubernetesExecutor"
    return next(
        (f"with {name}" for name in executors() if name not in frozenset({"LocalExecutor", "SequentialExecutor"})), ""
    )


def check_folders(settings: Settings) -> None:
    if problems := folder_problems(settings):
        raise ConfigError("; ".join(problems))


def folder_problems(settings: Settings) -> tuple[str, ...]:
    """What is wrong with the folders of the settings that all processes have to see."""
    problems = (storage_problem(settings), outbox_problem(settings) if OUTBOX in settings.channel_names else "")
    return tuple(one for one in problems if one)


def storage_problem(settings: Settings) -> str:
    """Why the other tasks of a run would not see its folder; empty if they do."""
    return _problem("storage_root", settings.storage_root, "gs://my-bucket/runs", settings)


def outbox_problem(settings: Settings) -> str:
    """Why nobody would find the messages in the outbox; empty if they are in one place."""
    return _problem(OUTBOX, settings.outbox, "gs://my-bucket/outbox", settings)


def _problem(name: str, folder: str, example: str, settings: Settings) -> str:
    if not storage.is_local(folder) or not (where := separate_disks(settings)):
        return ""
    return (
        f"[{SECTION}] {name}: {folder} is on the disk of one machine, and {where} tasks run on several. "
        f"Set a folder in a bucket, such as {example}, {ADVICE}"
    )


def executors() -> Iterator[str]:
    """Yield the names of Airflow's executors: `[alias:]name[,...]`, for each team `team=...` after a semicolon."""
    configured = airflow_option("core", "executor") or "LocalExecutor"
    for team in configured.split(";"):
        for one in team.rpartition("=")[2].split(","):
            if name := one.strip().rpartition(":")[2].rpartition(".")[2]:
                yield name
