"""The local cluster: the optional package local-kube, as ML Metrics uses it."""

from __future__ import annotations

import argparse
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ml_metrics.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Iterator

MOUNT_VARIABLE_PREFIX = "ML_METRICS_MOUNT_"
NOT_INSTALLED = (
    "[ml_metrics] cluster: workloads would run on the local cluster, but the package local-kube is not installed here. "
    "Define a Kubernetes connection (setting `kubernetes_conn_id`), or install the folder packages/local-kube of this "
    "project: `pip install packages/local-kube`"
)


def start(root: str, image_folder: str | None) -> str:
    """Start the local cluster if it is not running, and return the path of its kubeconfig."""
    with _errors_translated():
        from local_kube import LocalCluster

        cluster = LocalCluster(root, image_folder, mount_variable_prefix=MOUNT_VARIABLE_PREFIX)
        return cluster.ensure_running()


def add_arguments(parser: argparse.ArgumentParser, default_root: str) -> None:
    """Declare the arguments of `local-kube`; without that package, accept anything, because `run` raises anyway."""
    try:
        from local_kube import cli
    except ModuleNotFoundError:
        parser.add_argument("arguments", nargs=argparse.REMAINDER, help="not available: local-kube is not installed")
    else:
        cli.add_arguments(parser, default_root)


def run(arguments: argparse.Namespace, default_root: str) -> int:
    """Run the command that the arguments describe and return its exit code."""
    with _errors_translated():
        from local_kube import cli

        return cli.run(arguments, arguments.root or default_root, MOUNT_VARIABLE_PREFIX)


@contextmanager
def _errors_translated() -> Iterator[None]:
    """Raise the errors of local-kube as those of ML Metrics."""
    try:
        from local_kube import ClusterError as LocalKubeError
    except ModuleNotFoundError as error:
        raise ClusterError(NOT_INSTALLED) from error
    try:
        yield
    except LocalKubeError as error:
        raise ClusterError(str(error)) from error
