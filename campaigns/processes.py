"""The settings of an Airflow whose processes a campaign starts one by one: PostgreSQL for its own state."""

from __future__ import annotations

import base64
import secrets
from urllib.parse import urlsplit


def settings_of_processes(url: str, database: str, broker: str) -> dict[str, str]:
    """What the processes share. With the address of redis, for Celery."""
    key = base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()
    return {
        "AIRFLOW__API__BASE_URL": url,
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(urlsplit(url).port),
        "AIRFLOW__API__SECRET_KEY": key,
        "AIRFLOW__API_AUTH__JWT_SECRET": key,
        "AIRFLOW__CELERY__BROKER_URL": broker,
        "AIRFLOW__CELERY__RESULT_BACKEND": f"db+{database}",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
        "AIRFLOW__CORE__FERNET_KEY": key,
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__LOAD_DEFAULT_CONNECTIONS": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database,
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC": database,
        "AIRFLOW__DATABASE__SQL_ALCHEMY_POOL_SIZE": "3",
        "AIRFLOW__SCHEDULER__ENABLE_HEALTH_CHECK": "False",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
    }


def settings_of_postgres(database: str) -> dict[str, str]:
    """For many tests at once, as docker-compose.yaml has it."""
    return {
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database,
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC": database,
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__SCHEDULER__MAX_TIS_PER_QUERY": "64",
        "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "10",
    }
