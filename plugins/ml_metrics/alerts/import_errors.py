"""DAG files that Airflow cannot import: the DAG processor writes down each error, and a later pass reports it.

Airflow calls a listener for each error, whenever it parses the file, and none when the file can be imported again.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ml_metrics.core.errors import FailureLogged, MlMetricsError
from ml_metrics.core.settings import Settings
from ml_metrics.core.text import logger_of
from ml_metrics.store import storage
from ml_metrics.store.documents import Documents

log = logger_of(__name__)

REPEATED_SECONDS = 300.0
"""The interval at which a lasting error is written again."""
IMPORT = """
import sys
import airflow  # which makes modules of the plugins folder known
from ml_metrics.airflow.versions import DagBag
sys.exit(bool(DagBag(sys.argv[1], include_examples=False).import_errors))
"""
MAX_FILE = 1 << 20
FOLDER = "import_errors"
OURS = (b"ml_metrics", b"ml-metrics")

_written: dict[str, tuple[str, float]] = {}
"""The hash of the error of each file that this process wrote, and when."""


@dataclass(frozen=True, slots=True)
class DagImportError:
    """A DAG file that could not be imported."""

    file: str
    stacktrace: str
    content: str
    """The hash of the file at that time; empty if it could not be read."""
    at: str

    @property
    def last_line(self) -> str:
        lines = [line.strip() for line in self.stacktrace.strip().splitlines() if line.strip()]
        return lines[-1] if lines else "unknown error"

    @property
    def line(self) -> int | None:
        """The line of the DAG file that the stack trace names last."""
        lines = re.findall(rf'File "{re.escape(self.file)}", line ([0-9]+)', self.stacktrace)
        return int(lines[-1]) if lines else None


def note_import_error(filename: str, stacktrace: str) -> None:
    """Write down an error of a DAG file that uses this package. It never raises: the DAG processor calls it."""
    with FailureLogged(log.warning, f"the import error of {filename} is not written down"):
        _note(filename, stacktrace)


def read_import_errors(settings: Settings, now: datetime) -> tuple[list[DagImportError], list[str]]:
    """The errors that last, and the documents of those that are fixed."""
    documents = _documents(settings)
    lasting: list[DagImportError] = []
    mended: list[str] = []
    for name in documents.names():
        try:
            error = DagImportError(**documents.read(name))
            if _lasts(error, now):
                lasting.append(error)
                continue
        except (MlMetricsError, ValueError, TypeError) as damaged:
            log.warning("%s: is not the document of an import error: %s", documents.path_of(name), damaged)
        mended.append(name)
    return lasting, mended


def forget_import_errors(settings: Settings, names: Iterable[str]) -> None:
    documents = _documents(settings)
    for name in names:
        documents.remove(name)


def _documents(settings: Settings) -> Documents:
    return Documents.of_deployment(settings.storage_root, FOLDER, settings.deployment)


def _note(filename: str, stacktrace: str) -> None:
    now = time.monotonic()
    digest = hashlib.sha256(stacktrace.encode(errors="replace")).hexdigest()
    before, at = _written.get(filename, ("", 0.0))
    if before == digest and now - at < REPEATED_SECONDS:
        return
    _written[filename] = (digest, now)
    data = _start_of(filename)
    if not any(name in data or name in stacktrace.encode(errors="replace") for name in OURS):
        return  # not a DAG of this package
    content = hashlib.sha256(data).hexdigest() if data else ""
    error = DagImportError(filename, stacktrace[-4000:], content, datetime.now(UTC).isoformat())
    settings = Settings.load()
    name = hashlib.sha256(filename.encode(errors="replace")).hexdigest()[:32]
    documents = _documents(settings)
    path = documents.path_of(name)
    if storage.is_local(path):
        documents.write(name, asdict(error))
    else:
        _write_apart(path, documents.encoded(name, asdict(error)))


def _write_apart(path: str, document: bytes) -> None:
    """Write to a bucket in another process: a server that hangs must not stop the DAG processor."""
    code = "import sys; from ml_metrics.store import storage; storage.write_bytes(sys.argv[1], sys.stdin.buffer.read())"
    # the process ends by itself; Python reaps it when it starts the next one
    writer = subprocess.Popen(
        [sys.executable, "-c", code, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    if writer.stdin is not None:
        with suppress(OSError), writer.stdin as pipe:
            pipe.write(document)


def _start_of(filename: str) -> bytes:
    path = Path(filename)
    if not path.is_file():
        return b""
    with path.open("rb") as opened:
        return opened.read(MAX_FILE)


def _lasts(error: DagImportError, now: datetime) -> bool:
    """Whether an error lasts. Airflow repeats it while it does, unless the DAG processor is down."""
    path = Path(error.file)
    repeated = now - datetime.fromisoformat(error.at) < timedelta(minutes=20)
    if not path.is_file():
        return repeated and not path.parent.is_dir()  # the DAG processor may have files that this machine has not
    if repeated and hashlib.sha256(_start_of(error.file)).hexdigest() == error.content:
        return True
    return not _can_be_imported(error.file)


def _can_be_imported(file: str) -> bool:
    """Whether Airflow can import a DAG file now, in a process of its own."""
    command = [sys.executable, "-c", IMPORT, file]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0
