"""What Airflow loads of this package. It is loaded into every component, so it imports next to nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.plugins_manager import AirflowPlugin

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

PREFIX = "/ml-metrics"


async def dashboard(scope: Scope, receive: Receive, send: Send) -> None:
    """The dashboard, imported when the first request comes: only the API server ever gets one."""
    from ml_metrics.dashboard.app import app

    await app(scope, receive, send)


class MlMetricsPlugin(AirflowPlugin):
    """The dashboard, and the links to it."""

    name = "ml_metrics"
    fastapi_apps: list[Any] = [  # noqa: RUF012  (Airflow declares it on the instance)
        {"app": dashboard, "url_prefix": PREFIX, "name": "ML Metrics"}
    ]
    external_views: list[Any] = [  # noqa: RUF012
        {
            "name": "ML Metrics",
            "href": f"{PREFIX}/",
            "destination": "nav",
            "url_route": "ml-metrics",
            "icon": f"{PREFIX}/icon.svg",
        },
        {
            "name": "Metrics",
            "href": f"{PREFIX}/dag?dag_id={{DAG_ID}}",
            "destination": "dag",
            "url_route": "ml-metrics-dag",
        },
        {
            "name": "Metrics",
            "href": f"{PREFIX}/dag-run?dag_id={{DAG_ID}}&run_id={{RUN_ID}}",
            "destination": "dag_run",
            "url_route": "ml-metrics-run",
        },
    ]
