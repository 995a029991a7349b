"""The process of a runner: it imports libraries once, and runs each request in a fork of itself."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
import traceback
from collections import defaultdict
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

LIBRARIES = (
    "aiosmtpd.controller",
    "fastapi.testclient",
    "gcsfs",
    "google.cloud.bigquery",
    "hypothesis",
    "jinja2",
    "kubernetes.client",
    "kubernetes_asyncio.client",
    "numpy",
    "pandas",
    "pyarrow",
    "pydantic",
    "pytest",
    "sqlalchemy",
    "sqlglot",
    "yaml",
)
"""What many tests import, without Airflow, which reads its configuration then."""


class Watching:
    """A plugin of pytest that notes the first failure, or of all tests what they run."""

    def __init__(self, coverage: Any) -> None:
        self.coverage = coverage
        self.failed = ""
        self.seconds: dict[str, float] = defaultdict(float)
        self.bad: set[str] = set()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if self.coverage is not None:
            self.coverage.switch_context(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration
        if report.failed or (report.skipped and self.coverage is not None):
            self.bad.add(report.nodeid)
        if report.failed:
            self.failed = self.failed or report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed = self.failed or f"{report.nodeid} cannot be collected"


def run(request: dict[str, Any]) -> dict[str, Any]:
    import pytest

    coverage = None
    if request["package"] is not None:
        from coverage import Coverage

        coverage = Coverage(data_file=None, source=[request["package"]], config_file=False)
        coverage.start()
    watching = Watching(coverage)
    stop = [] if coverage else ["-x"]
    arguments = [
        "-q",
        "-W",
        "ignore::pytest.PytestAssertRewriteWarning",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "--durations=0",
        "--no-header",
        *stop,
    ]
    code = pytest.main([*arguments, *request["tests"]], plugins=[watching])
    if coverage is None:
        return {"failed": watching.failed or ("" if code in {0, 5} else f"pytest ends with {int(code)}")}
    coverage.stop()
    if code not in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED}:
        return {"failed": f"pytest ends with {int(code)}"}
    return learnt(watching, coverage.get_data())


def learnt(watching: Watching, data: Any) -> dict[str, Any]:
    here = Path.cwd()
    outcomes: dict[str, Any] = {
        name: {"passed": name not in watching.bad, "seconds": seconds, "lines": {}}
        for name, seconds in watching.seconds.items()
    }
    for file in data.measured_files():
        for line, contexts in data.contexts_by_lineno(file).items():
            for context in contexts:
                if context in outcomes:
                    lines = outcomes[context]["lines"]
                    lines.setdefault(str(Path(file).resolve().relative_to(here.resolve())), []).append(line)
    return outcomes


def forked(request: dict[str, Any]) -> dict[str, Any]:
    """Run the request in a process group of its own, whose every process ends with it."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        Path(folder).chmod(0o755)  # PostgreSQL, which is not run by root, has its files in there
        answer = Path(folder, "answer.json")
        pid = os.fork()
        if not pid:
            os.setsid()
            os.environ["TMPDIR"] = tempfile.tempdir = folder
            output = os.open(Path(folder, "output"), os.O_WRONLY | os.O_CREAT)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(output, 1)
            os.dup2(output, 2)
            code = 1
            try:
                answer.write_text(json.dumps(run(request)))
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        end = time.monotonic() + request["seconds"]
        while not os.waitpid(pid, os.WNOHANG)[0]:
            if time.monotonic() > end:
                kill(pid)
                os.waitpid(pid, 0)
                return {"failed": f"no end after {request['seconds']:.0f} seconds"}
            time.sleep(0.02)
        kill(pid)
        if not answer.exists():
            return {"failed": "the tests end without an answer", "output": Path(folder, "output").read_text()[-2000:]}
        found: dict[str, Any] = json.loads(answer.read_text())
        return found


def kill(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    answers = os.dup(1)
    os.dup2(2, 1)
    for library in LIBRARIES:
        import_module(library)
    for line in sys.stdin:
        os.write(answers, (json.dumps(forked(json.loads(line))) + "\n").encode())
