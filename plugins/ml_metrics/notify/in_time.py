"""Sets a time limit on work that may hang, such as a request to a database that was stopped."""

from __future__ import annotations

from threading import Thread
from typing import TYPE_CHECKING, Generic, TypeVar

from ml_metrics.errors import MlMetricsError

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar("Result")


class TookTooLongError(MlMetricsError):
    """The work did not end in time. It continues in its thread."""


def in_time(work: Callable[[], Result], seconds: float, what: str) -> Result:
    """Return what the work returns, or raise what it raises, or `TookTooLongError` when the time is over.

    The thread of the work does not keep the process alive.
    """
    running = _Work(work)
    thread = Thread(target=running.run, daemon=True)
    thread.start()
    thread.join(max(0.0, seconds))
    if thread.is_alive():
        raise TookTooLongError(f"{what}: no answer within {max(0.0, seconds):.0f} seconds")
    if running.error is not None:
        raise running.error
    return running.results[0]


class _Work(Generic[Result]):
    def __init__(self, work: Callable[[], Result]) -> None:
        self.results: list[Result] = []
        self.error: BaseException | None = None
        self._work = work

    def run(self) -> None:
        try:
            self.results.append(self._work())
        except BaseException as error:  # noqa: BLE001  (it is raised again in the thread that waits)
            self.error = error
