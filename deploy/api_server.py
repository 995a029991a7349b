"""`airflow api-server` for SQLite: it answers while a request waits for the database. `make up` starts it.

Airflow writes a log entry for each request that changes something, and waits for the lock of the database on the event
loop. If another request of the same server holds the lock, and needs the loop to end, both wait until the time for the
lock is over, and no request is answered meanwhile. Here a thread writes the entry.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import sys
from typing import TYPE_CHECKING, Any

from airflow.api_fastapi.logging import decorators
from fastapi.concurrency import run_in_threadpool

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fastapi import Request

    Logging = Callable[..., Callable[..., Awaitable[None]]]


def in_thread(action_logging: Logging) -> Logging:
    """Return the maker of a route's log entries, as Airflow has it, whose entries a thread writes."""

    @functools.wraps(action_logging)
    def make(*args: Any, **options: Any) -> Callable[..., Awaitable[None]]:
        log_action: Callable[..., Any] = action_logging(*args, **options)

        @functools.wraps(log_action)
        async def log_in_thread(request: Request, **values: Any) -> None:
            await request.body()  # the request keeps it: the thread cannot read from the client
            await run_in_threadpool(asyncio.run, log_action(request=request, **values))

        # older FastAPI looks for the types of Airflow's function in this module
        vars(log_in_thread)["__signature__"] = inspect.signature(log_action, eval_str=True)
        return log_in_thread

    return make


if __name__ == "__main__":
    from airflow.__main__ import main

    decorators.action_logging = in_thread(decorators.action_logging)
    sys.argv[0] = "airflow"
    main()
