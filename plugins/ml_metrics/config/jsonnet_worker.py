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
    from typing import Any

MEMORY = 512 << 20
"""What may be written to. The address space is not bounded: Go's runtime reserves much more than it uses."""
MAX_STACK = 400
"""Calls within calls: enough for any template, and far below what the process' own stack can hold."""


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
                import_callback=reader(request, refused),
            )
            answer = {"output": output}
        except (RuntimeError, ValueError, OSError) as error:
            answer = {"error": str(error)}
        if refused:
            answer = {"error": refused[0]}
        print(json.dumps(answer), flush=True)  # noqa: T201  (the answer)


def reader(request: dict[str, Any], refused: list[str]) -> Callable[[str, str], tuple[str, bytes]]:
    """What finds an imported file: beside the importing one, then where it is told; never outside what is allowed.

    What is wrong with an import goes to `refused`, and Jsonnet is given an empty file. The binding would hand it the
    text of an exception without saying where that ends, and take whatever lies behind it in memory for a part of it.
    """
    within = [os.path.realpath(folder) + os.sep for folder in request["allowed"]]

    def refuse(name: str, what: str) -> tuple[str, bytes]:
        refused.append(f"{what}\n{place_of_import(request['file'], name)}")
        return f"refused:{name}", b""

    def read(folder: str, name: str) -> tuple[str, bytes]:
        for place in (folder, *request["search"]):
            path = os.path.realpath(os.path.join(place, name))  # noqa: PTH118  (no pathlib: this process starts fast)
            if not os.path.isfile(path):  # noqa: PTH113
                continue
            if not path.startswith(tuple(within)):
                return refuse(name, f"{name!r} lies outside the folders of tests and templates")
            try:
                with open(path, "rb") as file:  # noqa: PTH123
                    return path, file.read()
            except OSError as error:
                return refuse(name, f"{name!r} cannot be read: {error.strerror}")
        return refuse(name, f"there is no {name!r} beside the file or among the templates")

    return read


def place_of_import(path: str, name: str) -> str:
    """Where a file imports another, as Jsonnet's traces say it; nothing where it is one of its imports that does."""
    with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
        for number, line in enumerate(file, start=1):
            if "import" in line and name in line:
                return f"{path}:{number}:1"
    return ""


if __name__ == "__main__":
    main()
