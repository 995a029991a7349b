"""Fixtures for runs of whole DAGs."""

from __future__ import annotations

from airflow_home import home

__all__ = ["home"]
