"""Kubernetes quantities: `250m`, `1.5Gi`, `2e3`."""

import re

SUFFIXES = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
BINARY = {f"{letter}i": 1024.0**power for power, letter in enumerate("KMGTPE", start=1)}
QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)([A-Za-z]*)")


def amount(quantity: str | float) -> float:
    """A quantity as a number: bytes, CPUs or devices. ValueError if it is none."""
    found = QUANTITY.fullmatch(str(quantity).strip())
    factors = SUFFIXES | BINARY
    if found is None or found[2] not in factors:
        raise ValueError(f"{quantity!r} is not a quantity; write it like 500m, 2, 512Mi or 1.5Gi")
    return float(found[1]) * factors[found[2]]
