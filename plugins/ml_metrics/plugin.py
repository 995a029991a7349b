"""The Airflow plugin. Airflow loads it into every component, so it imports as little as possible."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.plugins_manager import AirflowPlugin

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

URL_PREFIX = "/ml-metrics"


async def dashboard(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve the dashboard. It is imported on the first request, which only the API server receives."""
    from ml_metrics.dashboard.app import app

    await app(scope, receive, send)


class MlMetricsPlugin(AirflowPlugin):
    """The dashboard and the links to it."""

    name = "ml_metrics"
    fastapi_apps: list[Any] = [  # noqa: RUF012  (Airflow declares it on the instance)
        {"app": dashboard, "url_prefix": URL_PREFIX, "name": "ML Metrics"}
    ]
    external_views: list[Any] = [  # noqa: RUF012
        {
            "name": "ML Metrics",
            "href": f"{URL_PREFIX}/",
            "destination": "nav",
            "url_route": "ml-metrics",
            "icon": f"{URL_PREFIX}/icon.svg",
        },
        {
            "name": "Metrics",
            "href": f"{URL_PREFIX}/dag?dag_id={{DAG_ID}}",
            "destination": "dag",
            "url_route": "ml-metrics-dag",
        },
        {
            "name": "Metrics",
            "href": f"{URL_PREFIX}/dag-run?dag_id={{DAG_ID}}&run_id={{RUN_ID}}",
            "destination": "dag_run",
            "url_route": "ml-metrics-run",
        },
    ]
