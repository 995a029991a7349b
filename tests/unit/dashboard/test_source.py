"""The shared warehouse connection of the pages."""

from __future__ import annotations

import pytest

from ml_metrics.dashboard import source
from ml_metrics.errors import WarehouseError


@pytest.mark.usefixtures("filled")
def test_the_next_request_opens_a_failed_warehouse_again() -> None:
    with source.SOURCE.open() as first:
        pass
    with pytest.raises(WarehouseError), source.SOURCE.open():
        raise WarehouseError("gone")
    assert source.SOURCE._opened is None
    with source.SOURCE.open() as second:
        assert second is first  # the fixture returns the same warehouse
