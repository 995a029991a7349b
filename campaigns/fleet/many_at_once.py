"""What an Airflow for many tests at once needs: PostgreSQL for its own state, as docker-compose.yaml has it."""

from __future__ import annotations


def settings_of_postgres(database: str) -> dict[str, str]:
    """Return the options, as variables, of an Airflow whose state is in this database."""
    return {
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database,
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC": database,
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__SCHEDULER__MAX_TIS_PER_QUERY": "64",
        "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "10",
    }
