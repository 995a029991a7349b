from __future__ import annotations

from threading import Event
from typing import NoReturn

import pytest

from ml_metrics.core.deadline import TookTooLongError, in_time
from ml_metrics.core.errors import WarehouseError


def test_the_result_or_the_error_of_the_work_is_returned() -> None:
    assert in_time(lambda: 7, 5, "the warehouse") == 7

    def fail() -> NoReturn:
        raise WarehouseError("it is down")

    with pytest.raises(WarehouseError, match="it is down"):
        in_time(fail, 5, "the warehouse")


def test_work_that_hangs_is_left_behind() -> None:
    hanging = Event()
    with pytest.raises(TookTooLongError, match="the warehouse: no answer within 0 seconds"):
        in_time(hanging.wait, 0.01, "the warehouse")
    with pytest.raises(TookTooLongError):
        in_time(hanging.wait, -1, "the warehouse")
    hanging.set()
