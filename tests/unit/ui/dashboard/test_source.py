"""The warehouse that all requests of a process share."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from ml_metrics.core.errors import WarehouseError
from ml_metrics.ui.dashboard import source

if TYPE_CHECKING:
    from collections.abc import Iterator


class Recorder:
    """Stands in for the warehouses of a deployment, and records which are closed."""

    def __init__(self) -> None:
        self.opened = 0
        self.closed: list[int] = []

    @contextmanager
    def warehouse(self) -> Iterator[Recorder]:
        self.opened += 1
        number = self.opened
        yield self
        self.closed.append(number)

    def ensure_schema(self) -> None:
        pass


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder()
    monkeypatch.setattr(source, "warehouse", recorder.warehouse)
    return recorder


@pytest.mark.usefixtures("filled")
def test_requests_share_one_warehouse() -> None:
    with source.SOURCE.open() as first, source.SOURCE.open() as second:
        assert second is first


def test_a_failed_warehouse_is_closed_and_opened_again(recorder: Recorder) -> None:
    shared = source.Source()
    with pytest.raises(WarehouseError), shared.open():
        raise WarehouseError("gone")
    assert recorder.closed == [1]
    with shared.open():
        assert recorder.opened == 2
    assert recorder.closed == [1]


def test_a_forgotten_warehouse_is_closed_after_its_last_request(recorder: Recorder) -> None:
    shared = source.Source()
    with shared.open():
        with shared.open():
            shared.forget()
            assert recorder.closed == []
        assert recorder.closed == []
    assert recorder.closed == [1]


def test_an_old_warehouse_is_closed_and_opened_again(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = source.Source()
    with shared.open():
        pass
    monkeypatch.setattr(source, "REOPEN_SECONDS", -1)
    with shared.open():
        assert (recorder.opened, recorder.closed) == (2, [1])


def test_an_unused_warehouse_is_closed_at_once(recorder: Recorder) -> None:
    shared = source.Source()
    with shared.open():
        pass
    shared.forget()
    shared.forget()
    assert recorder.closed == [1]
