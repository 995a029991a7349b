"""Two small DAGs that speak for all tests: what was held back, and which tests did not run when they should have."""

from datetime import timedelta

# What a DAG file imports of Airflow is imported by the DAG processor once, for every file that it reads from then on:
# without this line, each reading of the tests would take most of a second longer.
import airflow.providers.cncf.kubernetes.operators.pod  # noqa: F401
from airflow.sdk import DAG, task

from ml_metrics.notify import send_digest, send_heartbeat

AGAIN = {"retries": 2, "retry_delay": timedelta(minutes=5)}
MINE = {"catchup": False, "max_active_runs": 1, "tags": {"ml-metrics"}, "default_args": AGAIN}

with DAG("ml-metrics-digest", schedule="@hourly", description="Tell what was held back", **MINE) as digest:
    task(send_digest)()

with DAG("ml-metrics-heartbeat", schedule="0 7 * * 1", description="Tell which tests did not run", **MINE) as heartbeat:
    task(send_heartbeat)()
