"""The process in which Jsonnet programs are evaluated: one after the other, each within limits.

It reads one JSON request a line on standard input, `{"file", "search", "allowed", "cpu_seconds"}`, and answers one
line: `{"output"}` or `{"error"}`. A program may read files below the allowed folders only. Its memory and its
processor time are bounded by the kernel; how long it may take at all is the caller's business.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

MEMORY = 512 << 20
"""What may be written to. The address space is not bounded: Go's runtime reserves much more than it uses."""
MAX_STACK = 400
"""Calls within calls: enough for any template, and far below what the process' own stack can hold."""

END = "\x1e"


def main() -> None:
    """Answer until there are no more requests."""
    import _gojsonnet

    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        request = json.loads(line)
        used = sum(os.times()[:2])
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (int(used) + 1 + request["cpu_seconds"], hard))
        refused: list[str] = []
        try:
            output = _gojsonnet.evaluate_file(
                request["file"],
                max_stack=MAX_STACK,
                max_trace=3,
                import_callback=reader(request["search"], request["allowed"], refused),
            )
            answer = {"output": output}
        except (RuntimeError, ValueError, OSError) as error:
            answer = {"error": told(error, refused)}
        print(json.dumps(answer), flush=True)  # noqa: T201  (the answer)


def reader(search: list[str], allowed: list[str], refused: list[str]) -> Callable[[str, str], tuple[str, bytes]]:
    """What finds an imported file: beside the importing one, then where it is told; never outside what is allowed.

    What is said of a file that may not be read goes to `refused`: see `told`.
    """
    within = [os.path.realpath(folder) + os.sep for folder in allowed]

    def refuse(what: str) -> RuntimeError:
        refused.append(what)
        return RuntimeError(END)

    def read(folder: str, name: str) -> tuple[str, bytes]:
        for place in (folder, *search):
            path = os.path.realpath(os.path.join(place, name))  # noqa: PTH118  (no pathlib: this process starts fast)
            if not os.path.isfile(path):  # noqa: PTH113
                continue
            if not path.startswith(tuple(within)):
                raise refuse(f"{name!r} lies outside the folders of tests and templates")
            with open(path, "rb") as file:  # noqa: PTH123
                return path, file.read()
        raise refuse(f"there is no {name!r} beside the file or among the templates")

    return read


def told(error: Exception, refused: list[str]) -> str:
    """What went wrong, then where.

    The binding hands a refusal to Jsonnet without saying where its text ends, and whatever lies behind it in memory is
    taken for a part of it. So our own words do not go that way: a mark does, and what it is replaced by.
    """
    text = error.object.decode(errors="replace") if isinstance(error, UnicodeDecodeError) else str(error)
    if not refused:
        return text
    _, _, behind = text.partition(END)
    _, _, trace = behind.partition("\n\t")
    return f"{refused[-1]}\n\t{trace}"


if __name__ == "__main__":
    main()
