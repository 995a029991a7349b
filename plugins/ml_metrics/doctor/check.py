"""One check: a question with a deadline, whose answer is a sentence."""

from __future__ import annotations

from concurrent.futures import Future, wait
from dataclasses import dataclass
from threading import Thread
from typing import TYPE_CHECKING

from ml_metrics.errors import MlMetricsError
from ml_metrics.values import printable

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_REASON = 500


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check."""

    name: str
    ok: bool
    message: str
    """The finding; for a problem, also what to do."""


def checked(name: str, ask: Callable[[], str], seconds: float) -> Check:
    """Ask, and return the answer. An error is an answer too, and so is none within the time."""
    answer: Future[Check] = Future()
    # a thread, since a server that hangs may do so in a library that knows no timeout
    Thread(target=lambda: answer.set_result(_asked(name, ask)), daemon=True).start()
    if not wait([answer], seconds).done:
        return Check(name, ok=False, message=f"no answer within {seconds:g} seconds: is it reachable from here?")
    return answer.result()


def _asked(name: str, ask: Callable[[], str]) -> Check:
    try:
        return Check(name, ok=True, message=ask())
    except MlMetricsError as error:
        return Check(name, ok=False, message=_one_line(str(error)))
    except BaseException as error:  # noqa: BLE001  (of Airflow, its providers and clients: it must not end the others)
        return Check(name, ok=False, message=_one_line(f"{type(error).__name__}: {_without_secrets(error)}"))


def _without_secrets(error: BaseException) -> str:
    from airflow.sdk.log import redact  # type: ignore[attr-defined]

    return str(redact(str(error)))


def _one_line(text: str) -> str:
    return printable(" ".join(text.split())[:MAX_REASON]).removesuffix(": ")
