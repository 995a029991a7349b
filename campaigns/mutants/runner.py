"""Run chosen tests in forks of a process that has imported the libraries, against a copy of the project."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from campaigns.mutants.mutations import Mutation


class Outcome(TypedDict):
    """What was learnt of a test: whether it passes, after how long, and the lines that it runs in each file."""

    passed: bool
    seconds: float
    lines: dict[str, list[int]]


class Runner:
    """A warm process, with a copy of the project of its own."""

    def __init__(self, copy: Path) -> None:
        self.copy = copy
        rooms = [copy / name for name in ("", "plugins", "tests", "packages/local-kube/src", "packages/telemetry/src")]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, rooms)),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "campaigns.mutants.warm"],
            cwd=copy, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def trace(self, files: list[str], package: str) -> dict[str, Outcome]:
        """Run these files of tests, and learn of each test what it runs."""
        answer: dict[str, Outcome] = self._ask({"tests": files, "package": package, "seconds": 900})
        if "failed" in answer:
            sys.exit(f"nothing is learnt of {' '.join(files)}: {answer}")
        return answer

    def meet(self, mutation: Mutation, tests: Sequence[str], seconds: float) -> tuple[str, str]:
        """Whether a mutant is killed, and by which test."""
        path = self.copy / mutation.file
        whole = path.read_text()
        path.write_text(mutation.source)
        try:
            answer = self._ask({"tests": list(tests), "package": None, "seconds": seconds})
        finally:
            path.write_text(whole)
        if answer["failed"]:
            return "killed", answer["failed"]
        return "survived", f"{len(tests)} tests pass"

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)

    def _ask(self, request: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())
