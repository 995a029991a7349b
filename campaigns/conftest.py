"""What the campaigns need: a home for Airflow, and the warehouse on each engine."""

from __future__ import annotations

from airflow_home import home
from servers.engines import bigquery_server, engine, fast_retries, opener, postgres, warehouse

pytest_plugins = ["pools", "everywhere"]

__all__ = ["bigquery_server", "engine", "fast_retries", "home", "opener", "postgres", "warehouse"]
