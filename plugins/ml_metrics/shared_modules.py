"""Modules of this package that processes share with the one that has forked them, as long as their files are the same.

A process that starts by itself imports the files that are there. One that is forked would run what its parent has
read, until the parent starts again. So each one looks after the fork: if a file has changed, it forgets the whole
package, and imports it again when it needs it. What the parent has computed and kept is forgotten in any case.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import ModuleType

PACKAGES = ("ml_metrics", "ml_metrics_telemetry")


@dataclass(frozen=True, slots=True)
class SharedModules:
    """The modules of this package in a process that forks others."""

    states: dict[str, tuple[int, ...]]
    """What is known of each file; nothing, if it cannot be read or may have changed since it was imported."""
    caches: tuple[Any, ...]
    """The functions that keep their results."""

    @classmethod
    def of_this_process(cls) -> SharedModules:
        """Return those that are imported now."""
        began, modules = started_at() * 1e9, list(own_modules())
        states = {file: state_of(file) for module in modules if (file := module.__file__)}
        known = {file: state if max(state, default=began) < began else () for file, state in states.items()}
        return cls(known, tuple(_caches(modules)))

    @property
    def are_current(self) -> bool:
        """Whether no file has changed since it was imported."""
        return all(state and state_of(file) == state for file, state in self.states.items())

    def renew(self) -> None:
        """Forget what may be out of date. Each process calls this after it was forked."""
        for cache in self.caches:
            cache.cache_clear()
        if not self.are_current:
            for module in list(own_modules()):
                del sys.modules[module.__name__]


def share_after_forks() -> int:
    """Let the processes that this one forks from now on share its modules of this package. Return their number."""
    shared = SharedModules.of_this_process()
    os.register_at_fork(after_in_child=shared.renew)
    return len(shared.states)


def own_modules() -> Iterator[ModuleType]:
    """Yield the modules of this package that are imported."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in PACKAGES and module is not None:
            yield module


def started_at() -> float:
    """Return when this process started, in seconds since 1970; 0 where the system does not say: nothing is shared."""
    try:
        ticks = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    except OSError:
        return 0.0
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + int(ticks) / os.sysconf("SC_CLK_TCK")


def state_of(file: str) -> tuple[int, ...]:
    """Return what differs after a file was changed or replaced; nothing, if it cannot be read.

    The time of the change of the inode is part of it: a copy may keep the size of a file and the time of its original.
    """
    try:
        status = os.stat(file)  # noqa: PTH116  (called for hundreds of files after each fork)
    except OSError:
        return ()
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _caches(modules: Iterable[ModuleType]) -> Iterator[Any]:
    """Yield the functions of the modules that keep their results."""
    for module in modules:
        for value in vars(module).values():
            if hasattr(value, "cache_clear") and getattr(value, "__module__", None) == module.__name__:
                yield value
