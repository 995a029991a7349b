"""The error that this package raises on purpose."""

from __future__ import annotations


class ClusterError(Exception):
    """The local cluster cannot be started, reached or stopped. The message says why and what to do."""
