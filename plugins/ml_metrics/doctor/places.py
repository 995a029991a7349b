"""The places that runs write to: run folders, the outbox and the warehouse."""

from __future__ import annotations

import os
import secrets
from datetime import UTC, datetime
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from ml_metrics import connections, storage
from ml_metrics.errors import ConfigError, StorageError
from ml_metrics.separate_disks import outbox_problem
from ml_metrics.storage_mark import check_storage
from ml_metrics.warehouse.versions import SCHEMA_VERSION

if TYPE_CHECKING:
    from pathlib import Path

    from ml_metrics.settings import Settings

PROBE = b"written by `ml-metrics doctor`, which removes it again\n"


def run_folders(settings: Settings) -> str:
    """Return that run folders can be written and read. Raises an error if the tasks of a run would not see them."""
    check_storage(settings)
    return _written_and_read(settings.storage_root)


def outbox(settings: Settings) -> str:
    """Return that messages can be left in the outbox, and are in one place."""
    if problem := outbox_problem(settings):
        raise ConfigError(problem)
    return _written_and_read(settings.outbox)


def warehouse(settings: Settings) -> str:
    """Return which warehouse there is, and whether its tables are those of this version. Nothing is created."""
    connections.check_warehouse(settings)
    if _is_file_to_be(settings):
        return f"{settings.warehouse_file}: no run is recorded yet"
    with connections.warehouse(create=False) as opened:
        plan = opened.plan_schema()
        if plan.is_newer:
            known = f"this one knows {SCHEMA_VERSION}"
            raise ConfigError(f"{opened.address}: schema {plan.version} is of a newer version of ML Metrics: {known}")
        if plan.changes:
            raise ConfigError(
                f"{opened.address}: schema {plan.version} of {SCHEMA_VERSION}: run `ml-metrics schema upgrade`"
            )
        return f"{opened.address}: schema {plan.version}"


def senders(settings: Settings) -> str:
    """Return when messages were last sent. Raises ConfigError if nothing sends them."""
    if _is_file_to_be(settings):
        return "no message is due yet"
    with connections.warehouse(create=False) as opened:
        state = opened.senders.state(datetime.now(UTC))
    if since := state.silent_since(datetime.now(UTC)):
        raise ConfigError(
            f"no sender has run since {since:%Y-%m-%d %H:%M} UTC: is the DAG `ml_messages` there, and not paused?"
        )
    if state.dead:
        raise ConfigError(f"{state.dead} messages of the last week could not be sent: `ml-metrics messages` lists them")
    if state.last_pass is None:
        return "no message is due yet"
    return f"last pass {state.last_pass:%Y-%m-%d %H:%M} UTC, {state.pending} messages pending"


def _is_file_to_be(settings: Settings) -> bool:
    """Whether the warehouse is a file that the first run creates."""
    if connections.find_connection(settings.warehouse_conn_id) is not None:
        return False
    return not os.path.exists(settings.warehouse_file)  # noqa: PTH110  (a setting: it may be no path at all)


def _written_and_read(folder: str) -> str:
    if storage.is_local(folder):
        return _local_file_written_and_read(storage.local_path(folder))
    probe = storage.join(folder, f"doctor-{secrets.token_hex(8)}.txt")
    storage.write_bytes(probe, PROBE)
    try:
        if storage.read_bytes(probe) != PROBE:
            raise StorageError(f"{probe}: has another content than was written")
    finally:
        storage.remove(probe)
    return f"{folder}: files can be written, read and removed"


def _local_file_written_and_read(folder: Path) -> str:
    """Write a file that has no name, and so leaves nothing behind, whenever this process ends."""
    if not folder.is_dir():
        return _can_be_made(folder)
    with TemporaryFile(dir=folder) as file:
        file.write(PROBE)
        file.flush()
        os.fsync(file.fileno())
    return f"{folder}: files can be written"


def _can_be_made(folder: Path) -> str:
    above = next(parent for parent in folder.absolute().parents if parent.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise StorageError(f"{folder}: does not exist and cannot be created in {above}")
    return f"{folder}: will be created by the first run"
