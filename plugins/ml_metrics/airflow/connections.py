"""The warehouse and the cluster that Airflow's connections and the settings configure."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ml_metrics.config.clusters import named_cluster
from ml_metrics.core.errors import ConfigError, MlMetricsError, WarehouseError
from ml_metrics.core.extras import require
from ml_metrics.core.settings import Settings
from ml_metrics.core.text import logger_of
from ml_metrics.store.disks import ADVICE, check_folders, separate_disks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy.engine import URL

    from ml_metrics.warehouse import Warehouse

log = logger_of(__name__)

MAX_REASON = 500


@contextmanager
def library_errors_as(kind: type[MlMetricsError]) -> Iterator[None]:
    """Raise what Airflow, its providers and clients raise as one line, without the secrets of connections."""
    try:
        yield
    except MlMetricsError:
        raise
    except BaseException as error:  # a library may also end the process, which has more to check
        from ml_metrics.airflow.versions import redact

        reason = " ".join(str(redact(str(error))).split())[:MAX_REASON]
        raise kind(f"{type(error).__name__}: {reason}".removesuffix(": ")) from error


def warehouse(*, create: bool = True, deployment: str | None = None) -> Warehouse:
    """Return the warehouse of this deployment: the connection in the settings, or the SQLite file if it is undefined.

    `deployment` is another one whose rows to read. With `create=False` a warehouse that does not exist yet is an error,
    as `open_warehouse` describes.
    """
    from ml_metrics.warehouse import open_warehouse, sqlite_address

    settings = Settings.load()
    deployment = deployment or settings.deployment
    connection = find_connection(settings.warehouse_conn_id)
    if connection is None:
        if where := separate_disks(settings):
            raise WarehouseError(_no_connection(settings, where))
        return open_warehouse(sqlite_address(settings.warehouse_file), create=create, deployment=deployment)
    if connection.conn_type in {"google_cloud_platform", "gcpbigquery"}:
        where = f"connection `{settings.warehouse_conn_id}` of the warehouse"
        require("google", where, "airflow.providers.google", "google.cloud.bigquery")
        from airflow.providers.google.cloud.hooks.bigquery import BigQueryHook

        from ml_metrics.warehouse import BigQueryOptions

        hook = BigQueryHook(gcp_conn_id=settings.warehouse_conn_id, use_legacy_sql=False)
        client = hook.get_client(project_id=hook.project_id)
        address = f"bigquery://{client.project}/{settings.dataset}"
        options = BigQueryOptions.of(settings, str(connection.extra_dejson.get("location") or ""))
        return open_warehouse(address, create=create, client=client, deployment=deployment, options=options)
    return open_warehouse(_sql_address(connection), create=create, deployment=deployment)


def check_places(settings: Settings) -> None:
    """Raise ConfigError if a task would not find what another one of its run has written."""
    check_folders(settings)
    check_warehouse(settings)


def check_warehouse(settings: Settings) -> None:
    """Raise ConfigError if each task would have a warehouse of its own, before a workload costs money."""
    if (where := separate_disks(settings)) and find_connection(settings.warehouse_conn_id) is None:
        raise ConfigError(_no_connection(settings, where))


def cluster_kubeconfig() -> str | None:
    """Return the kubeconfig of the local cluster, started if necessary; None if workloads use another cluster."""
    settings = Settings.load()
    if not uses_local_cluster(settings):
        return None
    from ml_metrics.airflow.clusters import local_cluster

    access = local_cluster.Access.of(settings)
    return local_cluster.start(settings.local_cluster_root, settings.local_image, access)


def find_variable(name: str) -> str:
    """Empty if it is not defined, or if Airflow does not answer."""
    from airflow.sdk import Variable

    try:
        return str(Variable.get(name, default=None) or "")
    except Exception as error:  # noqa: BLE001  (Airflow's secret backends raise unrelated errors)
        log.warning("Airflow's variable %s cannot be read: %s", name, type(error).__name__)
        return ""


def find_connection(conn_id: str) -> Any | None:
    from airflow.sdk import BaseHook

    from ml_metrics.airflow.versions import AirflowNotFoundException

    try:
        return BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        return None


def _no_connection(settings: Settings, where: str) -> str:
    return (
        f"connection `{settings.warehouse_conn_id}` of the warehouse cannot be read or is not defined, and {where} "
        f"tasks run on several machines: a file in its place would be another one on each. Define it, {ADVICE}"
    )


def uses_local_cluster(settings: Settings) -> bool:
    match settings.cluster:
        case "local" | "kubernetes":
            return settings.cluster == "local"
        case "auto":
            # inside a cluster, or with several workers, workloads never become processes of the Airflow worker
            if "KUBERNETES_SERVICE_HOST" in os.environ or separate_disks(settings):
                return False
            connection = find_connection(settings.kubernetes_conn_id)
            return connection is None or not (connection.extra_dejson or connection.host)
        case other:
            named_cluster(other, "[ml_metrics] cluster (auto, local, kubernetes or a name)")
            return False


def _sql_address(connection: Any) -> URL:
    if connection.conn_type == "sqlite":
        from ml_metrics.warehouse import sqlite_address

        return sqlite_address(connection.host or connection.schema)
    if connection.conn_type not in {"postgres", "postgresql"}:
        raise ConfigError(
            f"connection `{connection.conn_id}`: its type is {connection.conn_type!r}; "
            "a warehouse is sqlite, postgres or google_cloud_platform"
        )
    from sqlalchemy.engine import URL

    from ml_metrics.warehouse import libpq_options

    return URL.create(
        "postgresql+psycopg",
        username=connection.login,
        password=connection.password,
        host=connection.host,
        port=connection.port,
        database=connection.schema,
        query=libpq_options(connection.conn_id, connection.extra),
    )
