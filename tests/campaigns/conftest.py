"""What the campaigns need: a home for Airflow, and the warehouse on each engine."""

from __future__ import annotations

from airflow_home import home
from servers.engines import bigquery_server, engine, opener, postgres, retries_come_sooner, warehouse

__all__ = ["bigquery_server", "engine", "home", "opener", "postgres", "retries_come_sooner", "warehouse"]
