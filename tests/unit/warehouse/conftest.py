"""The fixtures of the warehouse on each engine."""

from __future__ import annotations

from servers.engines import bigquery_server, engine, fast_retries, opener, postgres, warehouse

__all__ = ["bigquery_server", "engine", "fast_retries", "opener", "postgres", "warehouse"]
