"""The local cluster: the optional package local-kube, as ML Metrics uses it."""

from __future__ import annotations

import argparse
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ml_metrics.airflow.clusters.manifests import RUN_FOLDER_ANNOTATION
from ml_metrics.core.airflow_options import airflow_home
from ml_metrics.core.errors import ClusterError, ConfigError
from ml_metrics.core.extras import advice

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ml_metrics.core.settings import Settings


PROJECT_FOLDERS = {"dags", "include", "plugins"}
KEPT_BY_AIRFLOW = {"airflow.cfg", "config", "logs", "ml_metrics"} | {f"airflow.db{end}" for end in ("", "-wal", "-shm")}
"""The content of Airflow's home, some of which is created after the local cluster starts."""
MOUNT_VARIABLE_PREFIX = "ML_METRICS_MOUNT_"
NOT_INSTALLED = (
    "[ml_metrics] cluster: workloads would run on the local cluster, but the package local-kube is not installed here. "
    "Define a Kubernetes connection (setting `kubernetes_conn_id`), or "
)

REFUSED = ("Permission denied", "PermissionError", "EACCES")
HOW_TO_SHARE = (
    "on the local cluster a workload reaches its run folder, the project, the system and Airflow's Python environment; "
    "name other folders that it needs in [ml_metrics] local_cluster_folders (docs/install.md)"
)


@dataclass(frozen=True, slots=True)
class Access:
    """What workloads on the local cluster may reach beside their run folder, the system and the project."""

    confine: str = "auto"
    hidden: tuple[Path, ...] = ()
    shared: tuple[Path, ...] = ()

    @classmethod
    def of(cls, settings: Settings) -> Access:
        """Return the access that the settings allow: nothing of Airflow's home, and the folders that they name."""
        if settings.local_cluster_confine not in {"auto", "require", "off"}:
            given = repr(settings.local_cluster_confine)
            raise ConfigError(f"[ml_metrics] local_cluster_confine: {given} is not one of auto, require, off")
        shared = (Path(name.strip()).expanduser() for name in settings.local_cluster_folders.split(",") if name.strip())
        home = airflow_home().absolute()
        of_airflow = [home]
        if Path(settings.local_image).absolute() == home and home.is_dir():  # what is not the project
            names = {path.name for path in home.iterdir()} | KEPT_BY_AIRFLOW
            of_airflow = [home / name for name in sorted(names - PROJECT_FOLDERS)]
        own = (*map(str, of_airflow), settings.storage_root, settings.outbox, settings.warehouse_file)
        hidden = tuple(Path(path).expanduser().absolute() for path in own if "://" not in path)
        return cls(settings.local_cluster_confine, hidden, tuple(path.absolute() for path in shared))


def refusal(log: Iterable[str], settings: Settings) -> str:
    """Return what to do if a workload was refused a file, by the lines of its log; empty if it was not."""
    refused = settings.local_cluster_confine != "off" and any(word in line for line in log for word in REFUSED)
    return HOW_TO_SHARE if refused else ""


def start(root: str, image_folder: str | None, access: Access | None = None) -> str:
    access = access or Access()
    with _errors_translated():
        from local_kube import LocalCluster
        from local_kube.pods.confinement import Confinement

        confinement = Confinement(access.confine, access.hidden, access.shared, RUN_FOLDER_ANNOTATION)
        cluster = LocalCluster(root, image_folder, mount_variable_prefix=MOUNT_VARIABLE_PREFIX, confinement=confinement)
        return cluster.ensure_running()


def add_arguments(parser: argparse.ArgumentParser, default_root: str) -> None:
    """Declare the arguments of `local-kube`; without that package, accept anything, because `run` raises anyway."""
    try:
        from local_kube import cli
    except ModuleNotFoundError:
        parser.add_argument("arguments", nargs=argparse.REMAINDER, help="not available: local-kube is not installed")
    else:
        cli.add_arguments(parser, default_root)
        parser.set_defaults(folder_annotation=RUN_FOLDER_ANNOTATION)


def run(arguments: argparse.Namespace, default_root: str, access: Access | None = None) -> int:
    access = access or Access()
    with _errors_translated():
        from local_kube import cli

        arguments.confine = arguments.confine or access.confine
        arguments.hide = [*arguments.hide, *access.hidden]
        arguments.share = [*arguments.share, *access.shared]
        return cli.run(arguments, arguments.root or default_root, MOUNT_VARIABLE_PREFIX)


@contextmanager
def _errors_translated() -> Iterator[None]:
    try:
        from local_kube import ClusterError as LocalKubeError
    except ModuleNotFoundError as error:
        raise ClusterError(NOT_INSTALLED + advice("local")) from error
    try:
        yield
    except LocalKubeError as error:
        raise ClusterError(str(error)) from error
