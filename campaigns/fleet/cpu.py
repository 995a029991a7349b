"""CPU seconds of families of processes, with those of processes that have ended.

The kernel adds the time of an ended process to that of its parent. A process whose parent ended first is adopted by
this one, so nothing that was started from here is lost.
"""

from __future__ import annotations

from contextlib import suppress

import psutil


def seconds_by_family(names: dict[int, str], rest: str) -> dict[str, float]:
    """Return the seconds of the descendants of this process, by the names of its children; `rest` is for all others.

    The time of the named process itself, without that of its descendants, is also under `<name> itself`.
    """
    own = psutil.Process().cpu_times()
    found = {rest: own.children_user + own.children_system}
    for child in psutil.Process().children():
        name = names.get(child.pid, rest)
        with suppress(psutil.NoSuchProcess):
            family = [child, *child.children(recursive=True)]
            found[name] = found.get(name, 0.0) + sum(map(_seconds, family))
            if name != rest:
                times = child.cpu_times()
                found[f"{name} itself"] = times.user + times.system
    return found


def _seconds(process: psutil.Process) -> float:
    """Return the time of a process and of its children that have ended."""
    with suppress(psutil.NoSuchProcess):
        return float(sum(process.cpu_times()[:4]))
    return 0.0
