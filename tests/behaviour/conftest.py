"""What runs of whole DAGs need."""

from __future__ import annotations

from behaviour.home import home

__all__ = ["home"]
