"""The fixtures of the warehouse on each engine."""

from __future__ import annotations

from servers.engines import bigquery_server, engine, opener, postgres, retries_come_sooner, warehouse

__all__ = ["bigquery_server", "engine", "opener", "postgres", "retries_come_sooner", "warehouse"]
