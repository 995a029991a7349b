"""Kubernetes' notations: quantities such as `250m` or `1.5Gi`, and timestamps.

Standard library only: the shim, which starts with every container, imports it.
"""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime

SUFFIXES = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
BINARY_SUFFIXES = {f"{letter}i": 1024.0**power for power, letter in enumerate("KMGTPE", start=1)}
QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)([A-Za-z]*)")


def parse_quantity(quantity: str | float) -> float:
    """Return a quantity as a number of bytes, CPUs or devices; raise ValueError if it is malformed."""
    found = QUANTITY.fullmatch(str(quantity).strip())
    factors = SUFFIXES | BINARY_SUFFIXES
    if found is None or found[2] not in factors:
        raise ValueError(f"{quantity!r} is not a quantity; write it like 500m, 2, 512Mi or 1.5Gi")
    return float(found[1]) * factors[found[2]]


def now() -> str:
    """Return the current time as it appears in objects, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def precise_now() -> str:
    """Return the current time as it appears in log lines, to the nanosecond."""
    nanoseconds = time.time_ns()
    seconds = datetime.fromtimestamp(nanoseconds // 10**9, UTC)
    return f"{seconds:%Y-%m-%dT%H:%M:%S}.{nanoseconds % 10**9:09d}Z"
