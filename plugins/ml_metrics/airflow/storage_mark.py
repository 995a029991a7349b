"""A mark in the storage root, by which an empty mount point is told from a root that no run has used yet.

Each run marks the root before its workload starts, and Airflow remembers in a variable which root is marked. A root
without its mark is not there: what is written then is lost, and what is absent says nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.airflow.connections import find_variable
from ml_metrics.core.errors import ConfigError, FailureLogged, StorageError
from ml_metrics.core.text import logger_of
from ml_metrics.store import storage
from ml_metrics.store.disks import storage_problem
from ml_metrics.store.documents import DOCUMENTS

if TYPE_CHECKING:
    from ml_metrics.core.settings import Settings


VARIABLE = "ml_metrics_storage_root"
"""The variable of Airflow that names the marked root. Each deployment has its own Airflow."""
MARK = f"{DOCUMENTS}/storage-root.txt"
TEXT = b"ML Metrics writes its runs here. Without this file, it takes the folder for a disk that is not mounted.\n"
log = logger_of(__name__)


def check_storage(settings: Settings) -> None:
    """Raises ConfigError if tasks on several machines share no root, StorageError if a used root is not there."""
    if problem := storage_problem(settings):
        raise ConfigError(problem)
    root = settings.storage_root
    place = storage.Folder(root)
    if place.exists(MARK) or find_variable(VARIABLE) != root:
        return
    # a bucket is not mounted: if anything is in it, a rule has removed what is old
    if storage.is_local(root) or not place.subfolders(""):
        raise StorageError(
            f"{root}: has no {MARK}, which this deployment has written there. Is the storage mounted? Mount it, and "
            f"the next try continues. If the folder was emptied on purpose, delete Airflow's variable `{VARIABLE}`"
        )


def mark_storage(settings: Settings) -> None:
    """Mark the storage root, and let Airflow remember that. A task that is about to write a run calls this."""
    from airflow.sdk import Variable

    check_storage(settings)
    root = settings.storage_root
    place = storage.Folder(root)
    if storage.is_local(root):
        place.write(MARK, TEXT)  # anew each time, since something may remove what is old
    else:
        place.create(MARK, TEXT)
    if find_variable(VARIABLE) != root:
        with FailureLogged(log.warning, f"Airflow's variable {VARIABLE} cannot be written"):  # the next run tries again
            Variable.set(VARIABLE, root, description="The folder of runs that ML Metrics has marked as its own")
