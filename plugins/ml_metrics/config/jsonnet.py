"""Jsonnet test files. Since they are programs, a separate process with limited resources evaluates them.

The result of a file is a test (`mnist.test`) or, as with older templates, the Kubernetes object of a test:
`mnist.oneshotJob`, `mnist.cronJob` or `std.manifestYamlDoc(mnist.cronJob)`, which has the test in an annotation.
"""

from __future__ import annotations

import json
import math
import os
import re
import select
import subprocess
import sys
import time
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ml_metrics.config.document import Document, Place, content_of
from ml_metrics.config.problems import InvalidFileError, Problem, TooSlowError, Where
from ml_metrics.config.reading_time import ReadingTime
from ml_metrics.core.extras import advice, included

ANNOTATION = "ml-metrics/test-file"
"""The annotation in which Kubernetes objects from the templates keep their test."""
CPU_SECONDS = 2
"""A hundred times what a test needs."""
TIMEOUT_SECONDS = 8.0
"""The elapsed time, on a busy machine. Less if the files of the folder have less time left."""
LEAST_SECONDS = 0.5
"""The elapsed time for any program, which may include the start of the process."""
MAX_OUTPUT = 8 << 20
INHERITED = ("LD_LIBRARY_PATH", "PATH", "PYTHONHOME", "PYTHONPATH")
_LINE = re.compile(r"(?P<file>/[^\s:]+):\(?(?P<line>[0-9]+):")


@dataclass(slots=True)
class Jsonnet:
    """Evaluates Jsonnet files in a process that starts with the first file and ends with `close`."""

    root: Path
    reading_time: ReadingTime | None = None
    _worker: subprocess.Popen[bytes] | None = field(default=None)

    def read(self, path: Path) -> Document:
        source = content_of(path, self.root).decode("utf-8-sig", errors="replace")
        output = self._evaluate(path, source)
        content = _test_in(output, path)
        return Document(str(path), content, dict(_places(content, path, source)))

    def close(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.kill()
            worker.communicate()

    def _evaluate(self, path: Path, source: str) -> Any:
        if self._worker is None:
            if find_spec("_gojsonnet") is None:
                what = f"cannot be evaluated here: gojsonnet is not installed; {advice('jsonnet')}"
                raise InvalidFileError.of(path, what)
            self._worker = subprocess.Popen(
                [sys.executable, "-P", str(Path(__file__).with_name("jsonnet_worker.py"))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={"GOMAXPROCS": "1", **{name: os.environ[name] for name in INHERITED if name in os.environ}},
            )
        templates = _templates(self.root)
        request = {
            "file": str(path.resolve()),
            "source": source,
            "search": [str(self.root), *(str(folder) for folder in templates for folder in (folder.parent, folder))],
            "allowed": [str(self.root), *map(str, templates)],
            "cpu_seconds": CPU_SECONDS,
        }
        began, answer = time.monotonic(), None
        try:
            answer = self._request(json.dumps(request).encode() + b"\n")
        finally:
            if answer is None:
                self.close()
            if self.reading_time is not None:
                self.reading_time.waited(time.monotonic() - began)
        if answer is None:
            what = f"does not end, or exceeds the limits of {CPU_SECONDS} s of processor time and 512 MiB of memory"
            raise TooSlowError.of(path, what)
        if "error" in answer:
            raise InvalidFileError([_evaluation_problem(answer["error"], path)])
        return json.loads(answer["output"])

    def _request(self, request: bytes) -> dict[str, Any] | None:
        """None if the worker exceeded its limits."""
        worker: Any = self._worker  # it was started with pipes
        try:
            worker.stdin.write(request)
            worker.stdin.flush()
        except BrokenPipeError:
            return None
        left = math.inf if self.reading_time is None else max(LEAST_SECONDS, self.reading_time.left)
        deadline, answer = time.monotonic() + min(TIMEOUT_SECONDS, left), b""
        while not answer.endswith(b"\n"):
            ready, _, _ = select.select([worker.stdout], [], [], max(0.0, deadline - time.monotonic()))
            part = os.read(worker.stdout.fileno(), 1 << 16) if ready else b""
            answer += part
            if not part or len(answer) > MAX_OUTPUT:
                return None
        return dict(json.loads(answer))


def _test_in(output: Any, path: Path) -> dict[str, Any]:
    if isinstance(output, str):  # std.manifestYamlDoc
        from ml_metrics.config.yaml import parse_yaml

        output, _, _ = parse_yaml(output, str(path))
    if isinstance(output, dict) and "apiVersion" in output:
        try:
            output = json.loads(output["metadata"]["annotations"][ANNOTATION])
        except (KeyError, TypeError, ValueError) as error:
            what = f"produces a Kubernetes object without a test in its annotation {ANNOTATION}"
            raise InvalidFileError.of(path, f"{what}; build it with templates/base.libsonnet") from error
    if not isinstance(output, dict):
        raise InvalidFileError.of(
            path, "produces no test; end it with `mnist.test`, `mnist.oneshotJob` or `mnist.cronJob`"
        )
    return output


def _templates(root: Path) -> list[Path]:
    beside = [folder / "templates" for folder in root.resolve().parents]
    return [folder for folder in (*beside, included("templates")) if (folder / "base.libsonnet").is_file()][:1]


def _places(content: dict[str, Any], path: Path, source: str) -> Any:
    """Yield a place for each value: the line of its key, if the key occurs once in the program."""
    lines_of_key: dict[str, list[int]] = {}
    for number, line in enumerate(source.splitlines(), start=1):
        for key in re.findall(r"['\"]?([\w/-]+)['\"]?\s*\+?::?:?", line.partition("//")[0]):
            snake = re.sub(r"(?<=[a-z])([A-Z])", lambda found: f"_{found[1].lower()}", key)
            lines_of_key.setdefault(snake, []).append(number)
    stack: list[tuple[Where, Any]] = [((), content)]
    yield (), Place(str(path))
    while stack:
        where, value = stack.pop()
        for key, inner in value.items() if isinstance(value, dict) else ():
            found = lines_of_key.get(_TEMPLATE_NAMES.get(key, key), [])
            yield (*where, key), Place(str(path), found[0] if len(found) == 1 else None)
            stack.append(((*where, key), inner))


_TEMPLATE_NAMES = {"framework": "framework_prefix", "model": "model_name", "name": "test_name", "env": "env_map"}
"""The names of keys in the templates, where they differ."""


def _evaluation_problem(error: str, path: Path) -> Problem:
    first, *trace = error.splitlines()
    lines = [(found["file"], int(found["line"])) for found in map(_LINE.search, [first, *trace]) if found]
    resolved = str(path.resolve())
    own = [line for file, line in lines if file == resolved]
    what = re.sub(r"^(?:RUNTIME ERROR: )?(?:/\S+:[0-9]\S* )?(?:importer error: )?", "", first)
    return Problem(str(path), own[0] if own else None, "", f"cannot be evaluated: {what}")
