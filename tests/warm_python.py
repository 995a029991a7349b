"""A Python that has imported what several programs need, and runs each of them in a fork of itself.

To import takes a cold process longer than what most programs of tests do. Where the start of a process is what is
tested, a test starts one of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SERVER = """
import json, os, resource, signal, sys, traceback

def run(argv, memory, output):
    out = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(out, 1), os.dup2(out, 2)
    signal.alarm(300)
    if memory:
        with open("/proc/self/statm") as of_imports:
            memory += int(of_imports.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    sys.argv[1:] = argv
    exec(compile(PROGRAM, "program", "exec"), {"__name__": "__main__"})

def forked(**request):
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    code = 1
    try:
        run(**request)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush(), sys.stderr.flush()
        os._exit(code)

for line in sys.stdin:
    print(forked(**json.loads(line)), flush=True)
"""


class Done(NamedTuple):
    """The end of a program."""

    returncode: int
    output: str
    """What it wrote, errors included."""


class WarmPython:
    """Runs one program."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, *argv: object, folder: Path, memory: int | None = None) -> Done:
        """Run the program, in so much more address space than its imports take. Its output is in `folder` meanwhile."""
        output = folder / "output-of-a-warm-python"
        request = {"argv": list(map(str, argv)), "memory": memory, "output": str(output)}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        return Done(int(answer), output.read_text(errors="replace"))


@contextmanager
def warm_python(imports: str, program: str, **environment: str) -> Iterator[WarmPython]:
    """Start a Python that imports and runs the program as often as wanted, without the settings of who tests."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "ML_METRICS"))}
    code = f"{imports}\nPROGRAM = {program!r}\n{SERVER}"
    everything = {**inherited, **environment}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=everything, text=True
    ) as process:
        yield WarmPython(process)
        assert process.stdin is not None
        process.stdin.close()
