"""The warehouse that pages read. Opening one looks at every table, which a page should not wait for each time."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ml_metrics.connections import warehouse
from ml_metrics.errors import WarehouseError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from ml_metrics.warehouse import Warehouse

REOPEN_SECONDS = 300
"""After so long a changed connection or setting is seen."""


class Source:
    """One open warehouse for all requests of this process, opened again when it is old or was unreachable."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opened: tuple[AbstractContextManager[Warehouse], Warehouse, float] | None = None

    @contextmanager
    def open(self) -> Iterator[Warehouse]:
        """The warehouse. Where it does not answer, the next request tries anew."""
        found = self._current()
        try:
            yield found
        except WarehouseError:
            self.forget()
            raise

    def forget(self) -> None:
        """Let go of the warehouse. Requests that still use it end as they can; its pool closes behind them."""
        with self._lock:
            self._opened = None

    def _current(self) -> Warehouse:
        with self._lock:
            if self._opened is None or time.monotonic() - self._opened[2] > REOPEN_SECONDS:
                manager = warehouse()
                opened = manager.__enter__()
                opened.ensure_schema()
                self._opened = manager, opened, time.monotonic()
            return self._opened[1]


SOURCE = Source()
