"""The Airflow plugin. Airflow loads it into every component, so it imports as little as possible."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.listeners import hookimpl
from airflow.plugins_manager import AirflowPlugin

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send


URL_PREFIX = "/ml-metrics"


async def dashboard(scope: Scope, receive: Receive, send: Send) -> None:
    """It is imported on the first request, which only the API server receives."""
    from ml_metrics.ui.dashboard.app import app

    await app(scope, receive, send)


class ImportErrors:
    """Writes down which DAG files cannot be imported. Airflow's DAG processor calls this."""

    @hookimpl
    def on_new_dag_import_error(self, filename: str, stacktrace: str) -> None:
        from ml_metrics.alerts import note_import_error

        note_import_error(filename, stacktrace)

    on_existing_dag_import_error = on_new_dag_import_error


class Preloading:
    """Imports the libraries of tasks once for all of them. Airflow's scheduler calls this before it forks workers."""

    @hookimpl
    def on_starting(self, component: Any) -> None:
        from ml_metrics.airflow import preload

        preload(component)


def _view(name: str, page: str, destination: str, url_route: str) -> dict[str, str]:
    return {"name": name, "href": f"{URL_PREFIX}/{page}", "destination": destination, "url_route": url_route}


class MlMetricsPlugin(AirflowPlugin):
    """The dashboard, the links to it, and listeners: for DAG files that cannot be imported, and for the scheduler."""

    name = "ml_metrics"
    listeners: list[Any] = [ImportErrors(), Preloading()]  # noqa: RUF012
    fastapi_apps: list[Any] = [  # noqa: RUF012  (Airflow declares it on the instance)
        {"app": dashboard, "url_prefix": URL_PREFIX, "name": "ML Metrics"}
    ]
    external_views: list[Any] = [  # noqa: RUF012
        _view("ML Metrics", "", "nav", "ml-metrics") | {"icon": f"{URL_PREFIX}/icon.svg"},
        _view("Metrics", "dag?dag_id={DAG_ID}", "dag", "ml-metrics-dag"),
        _view("Metrics", "dag-run?dag_id={DAG_ID}&run_id={RUN_ID}", "dag_run", "ml-metrics-run"),
    ]
