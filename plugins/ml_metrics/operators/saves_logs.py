"""What the operators share to save the logs of containers before the cluster deletes them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ml_metrics.clusters.local_cluster import refusal
from ml_metrics.logs.documents import SAVED_LINES, lines_of
from ml_metrics.logs.secrets import Secrets
from ml_metrics.operators.container_logs import FETCH_SECONDS, list_logs
from ml_metrics.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ml_metrics.logs.documents import ContainerLog
    from ml_metrics.model import Workload
    from ml_metrics.run_folder import RunFolder

CHUNK_BYTES = 16 * 1024


class SavesLogs:
    """The part of an operator that saves logs, once for each attempt."""

    hidden = Secrets()
    """What logs must not show."""
    pending: Workload | None
    created: bool
    _folder: RunFolder | None
    _saved_logs_of = 0
    """The attempt whose logs were saved."""
    client: Any
    config_file: str | None
    """The kubeconfig of the local cluster; None on any other."""
    own_namespace: Any
    log: Any

    def save_logs(self, folder: RunFolder | None = None) -> None:
        """Save the last lines of all containers to the run folder. A failure to do so is logged, and nothing else."""
        attempt, folder = self.pending.attempts if self.pending else 0, folder or self._folder
        if not self.created or folder is None or self._saved_logs_of == attempt:
            return
        self._saved_logs_of = attempt
        try:
            logs = [self._explained(folder, log) for log in self.fetch_logs(folder, attempt)]
            failing = list_logs(folder, logs, self.hidden)
        except Exception as error:  # noqa: BLE001  (a run never fails because of its logs)
            self.log.warning("the logs of the containers could not be saved: %s: %s", type(error).__name__, error)
            return
        saved = sum(log.saved for log in logs)
        about = f", for example that of the {failing.title}" if failing else ""
        self.log.info("saved the last lines of %d logs%s, below %s", saved, about, folder.path)

    def _explained(self, folder: RunFolder, log: ContainerLog) -> ContainerLog:
        """Return the log with a note if the local cluster refused its container a file."""
        if not (self.config_file and log.failed):
            return log
        note = refusal((log.note, *lines_of(folder, log)), Settings.load())
        if note:
            self.log.warning("%s: %s", log.title, note)
        return replace(log, note="; ".join(filter(None, (log.note, note))))

    def fetch_logs(self, folder: RunFolder, attempt: int) -> list[ContainerLog]:
        """Save the logs of the workload's pods, and return them."""
        raise NotImplementedError

    def open_tail(self, pod: str, log: ContainerLog) -> Iterable[bytes]:
        """Open the last lines of a container's log."""
        seconds = (FETCH_SECONDS, FETCH_SECONDS)
        response = self.client.read_namespaced_pod_log(
            pod,
            self.own_namespace,
            container=log.container,
            previous=log.previous,
            tail_lines=SAVED_LINES,
            _preload_content=False,
            _request_timeout=seconds,
        )
        pieces: Iterable[bytes] = response.stream(CHUNK_BYTES)
        return pieces
