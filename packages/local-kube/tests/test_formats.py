"""Quantities."""

from __future__ import annotations

import pytest

from local_kube.formats import parse_quantity


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("500m", 0.5),
        ("2", 2),
        ("1.5Gi", 1.5 * 2**30),
        ("128Mi", 2**27),
        ("1e3", 1000),
        ("1G", 1e9),
        ("100k", 1e5),
        (4, 4),
    ],
)
def test_quantities(text: str, number: float) -> None:
    assert parse_quantity(text) == pytest.approx(number)


@pytest.mark.parametrize("text", ["", "Mi", "1 Gi", "1GB", "one", "1.2.3"])
def test_invalid_quantities(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        parse_quantity(text)
