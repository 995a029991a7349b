"""Jsonnet test files. They are programs: another process evaluates them, within limits, and can run nothing.

A file ends in a test (`mnist.test`), or, as older templates had it, in the Kubernetes object of one:
`mnist.oneshotJob`, `mnist.cronJob` or `std.manifestYamlDoc(mnist.cronJob)`. It carries its test in an annotation.
"""

from __future__ import annotations

import json
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

from ml_metrics.config.document import Document, Place, Where
from ml_metrics.config.problems import InvalidFileError, Problem

ANNOTATION = "ml-metrics/test-file"
"""Where the Kubernetes objects that the templates make keep the test that they were made from."""
CPU_SECONDS = 2
"""A hundred times what a test takes, and so little that Airflow's patience lasts for several that do not end."""
WALL_SECONDS = 8.0
MAX_OUTPUT = 8 << 20
WORKER = Path(__file__).with_name("jsonnet_worker.py")
PASSED_ON = ("LD_LIBRARY_PATH", "PATH", "PYTHONHOME", "PYTHONPATH")
_LINE = re.compile(r"(?P<file>/[^\s:]+):\(?(?P<line>[0-9]+):")


@dataclass(slots=True)
class Jsonnet:
    """Reads Jsonnet files. The process that evaluates them starts with the first and ends with `close`."""

    root: Path
    _worker: subprocess.Popen[bytes] | None = field(default=None)

    def read(self, path: Path) -> Document:
        """The test that a program makes."""
        output = self._evaluate(path)
        content = _test_in(output, path)
        return Document(str(path), content, dict(_places(content, path)))

    def close(self) -> None:
        """End the process."""
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.kill()
            worker.communicate()

    def _evaluate(self, path: Path) -> Any:
        if self._worker is None:
            if find_spec("_gojsonnet") is None:
                raise InvalidFileError.of(path, "cannot be evaluated here: the package gojsonnet is not installed")
            self._worker = subprocess.Popen(
                [sys.executable, "-P", str(WORKER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**{name: os.environ[name] for name in PASSED_ON if name in os.environ}, "GOMAXPROCS": "1"},
            )
        templates = _templates(self.root)
        request = {
            "file": str(path.resolve()),
            "search": [str(self.root), *(str(folder) for folder in templates for folder in (folder.parent, folder))],
            "allowed": [str(self.root), *map(str, templates)],
            "cpu_seconds": CPU_SECONDS,
        }
        answer = self._ask(json.dumps(request).encode() + b"\n")
        if answer is None:
            self.close()
            what = (
                f"does not end, or needs too much: it may take {CPU_SECONDS} s of processor time and 512 MiB of memory"
            )
            raise InvalidFileError.of(path, what)
        if "error" in answer:
            raise InvalidFileError([_evaluation_problem(answer["error"], path)])
        return json.loads(answer["output"])

    def _ask(self, request: bytes) -> dict[str, Any] | None:
        """The worker's answer, or None where it came to its limits."""
        worker = self._worker
        assert worker is not None  # noqa: S101  (for the type checker)
        assert worker.stdin is not None  # noqa: S101
        assert worker.stdout is not None  # noqa: S101
        try:
            worker.stdin.write(request)
            worker.stdin.flush()
        except BrokenPipeError:
            return None
        deadline, answer = time.monotonic() + WALL_SECONDS, b""
        while not answer.endswith(b"\n"):
            ready, _, _ = select.select([worker.stdout], [], [], max(0.0, deadline - time.monotonic()))
            part = os.read(worker.stdout.fileno(), 1 << 16) if ready else b""
            answer += part
            if not part or len(answer) > MAX_OUTPUT:
                return None
        found: dict[str, Any] = json.loads(answer)
        return found


def _test_in(output: Any, path: Path) -> dict[str, Any]:
    """The test in what a program put out."""
    if isinstance(output, str):  # std.manifestYamlDoc
        from ml_metrics.config.yaml_text import parse_yaml

        output, _, _ = parse_yaml(output, str(path))
    if isinstance(output, dict) and "apiVersion" in output:
        try:
            output = json.loads(output["metadata"]["annotations"][ANNOTATION])
        except (KeyError, TypeError, ValueError) as error:
            what = f"makes a Kubernetes object without a test in its annotation {ANNOTATION}"
            raise InvalidFileError.of(path, f"{what}; build it with templates/base.libsonnet") from error
    if not isinstance(output, dict):
        raise InvalidFileError.of(
            path, "makes no test; end it with `mnist.test`, `mnist.oneshotJob` or `mnist.cronJob`"
        )
    return output


def _templates(root: Path) -> list[Path]:
    """The Jsonnet library: beside the tests' folder, or that of this checkout."""
    beside = [folder / "templates" for folder in root.resolve().parents]
    own = Path(__file__).resolve().parents[3] / "include" / "templates"
    return [folder for folder in (*beside, own) if (folder / "base.libsonnet").is_file()][:1]


def _places(content: dict[str, Any], path: Path, where: Where = ()) -> Any:
    """A program has no line for a value; where its key is written only once, that is the line."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    written: dict[str, list[int]] = {}
    for number, line in enumerate(lines, start=1):
        for key in re.findall(r"['\"]?([\w/-]+)['\"]?\s*\+?::?:?", line.partition("//")[0]):
            written.setdefault(_snake(key), []).append(number)
    stack: list[tuple[Where, Any]] = [((), content)]
    yield (), Place(str(path))
    while stack:
        where, value = stack.pop()
        for key, inner in value.items() if isinstance(value, dict) else ():
            found = written.get(_ALSO.get(key, key), [])
            yield (*where, key), Place(str(path), found[0] if len(found) == 1 else None)
            stack.append(((*where, key), inner))


_ALSO = {"framework": "framework_prefix", "model": "model_name", "name": "test_name", "env": "env_map"}
"""What the templates call some keys."""


def _snake(key: str) -> str:
    return re.sub(r"(?<=[a-z])([A-Z])", lambda found: f"_{found[1].lower()}", key)


def _evaluation_problem(error: str, path: Path) -> Problem:
    """Jsonnet's message in one line, at the line that it names in this file, else in another."""
    first, *trace = error.splitlines()
    lines = [(found["file"], int(found["line"])) for found in map(_LINE.search, [first, *trace]) if found]
    resolved = str(path.resolve())
    own = [line for file, line in lines if file == resolved]
    what = re.sub(r"^(?:RUNTIME ERROR: )?(?:/\S+:[0-9]\S* )?(?:importer error: )?", "", first)
    return Problem(str(path), own[0] if own else None, "", f"cannot be evaluated: {what}")
