"""The process that evaluates Jsonnet programs one after the other, each with limited resources.

It reads requests from standard input, one JSON line each: `{"file", "source", "search", "allowed", "cpu_seconds"}`. The
answer is one line: `{"output"}` or `{"error"}`. A program can read files below the allowed folders only. The kernel
limits its memory and processor time; the caller limits the elapsed time.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Callable
from typing import Any

MEMORY = 512 << 20
"""Limits data, not the address space, of which the Go runtime reserves much more than it uses."""
MAX_STACK = 400
"""The maximum depth of calls: enough for any template, and far below the capacity of the process stack."""


def main() -> None:
    import _gojsonnet

    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        request = json.loads(line)
        used = sum(os.times()[:2])
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (int(used) + 1 + request["cpu_seconds"], hard))
        rejected: list[str] = []
        try:
            output = _gojsonnet.evaluate_snippet(
                request["file"],
                request["source"],
                max_stack=MAX_STACK,
                max_trace=3,
                import_callback=importer(request, rejected),
            )
            answer = {"output": output}
        except (RuntimeError, ValueError, OSError) as error:
            answer = {"error": str(error)}
        if rejected:
            answer = {"error": rejected[0]}
        print(json.dumps(answer), flush=True)


def importer(request: dict[str, Any], rejected: list[str]) -> Callable[[str, str], tuple[str, bytes]]:
    """Return the import callback: it searches the folder of the importing file, then `search`, within `allowed`.

    The reason for a failed import is added to `rejected`, and Jsonnet gets an empty file. If the callback raised, the
    binding would pass on the message without a terminator, followed by whatever is behind it in memory.
    """
    within = [os.path.realpath(folder) + os.sep for folder in request["allowed"]]

    def reject(name: str, what: str) -> tuple[str, bytes]:
        rejected.append(f"{what}\n{place_of_import(request, name)}")
        return f"rejected:{name}", b""

    def read(folder: str, name: str) -> tuple[str, bytes]:
        places = [os.path.realpath(os.path.join(place, name)) for place in (folder, *request["search"])]
        # no other path is looked at: whether a file exists elsewhere is nothing that an author may know
        inside = [path for path in places if f"{path}{os.sep}".startswith(tuple(within))]
        path = next(filter(os.path.isfile, inside), "")
        if not path and places[0] not in inside:
            return reject(name, f"{name!r} is outside the folders of tests and templates")
        if not path:
            return reject(name, f"{name!r} is neither beside the file nor in the templates")
        try:
            with open(path, "rb") as file:
                if not leads_to(file.fileno(), path):
                    return reject(name, f"{name!r} was exchanged while it was opened")
                return path, file.read()
        except OSError as error:
            return reject(name, f"{name!r} cannot be read: {error.strerror}")

    return read


def leads_to(handle: int, path: str) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{handle}") == path
    except OSError:  # not on Linux
        return os.path.realpath(path) == path


def place_of_import(request: dict[str, Any], name: str) -> str:
    """In the format of Jsonnet traces; empty if the import is indirect."""
    for number, line in enumerate(request["source"].splitlines(), start=1):
        if "import" in line and name in line:
            return f"{request['file']}:{number}:1"
    return ""


if __name__ == "__main__":
    main()
