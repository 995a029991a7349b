"""All checks, in the order in which a problem of one explains problems of the next."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ml_metrics.doctor import configuration, installation, places, services
from ml_metrics.doctor.check import Check, checked
from ml_metrics.separate_disks import OUTBOX
from ml_metrics.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SECONDS = 30


def diagnose(seconds: float = SECONDS) -> Iterator[Check]:
    """Yield each check when it is done. None starts a workload, sends a message or creates a table."""
    read = checked("settings", lambda: configuration.settings_are_valid(Settings.load()), seconds)
    yield read
    yield checked("versions", installation.versions, seconds)
    try:
        settings = Settings.load()
    except Exception:  # noqa: BLE001  (the check `settings` has reported it)
        return
    for name, ask in _checks(settings, seconds):
        yield checked(name, ask, seconds)


def _checks(settings: Settings, seconds: float) -> Iterator[tuple[str, Callable[[], str]]]:
    yield "executor", partial(installation.executor, settings)
    yield "processes", installation.processes
    yield "test files", partial(configuration.files_are_valid, settings)
    yield "documents", configuration.documents_are_signed
    yield "run folders", partial(places.run_folders, settings)
    yield "warehouse", partial(places.warehouse, settings)
    try:
        clusters = services.cluster_names(settings)
    except Exception:  # noqa: BLE001  (the check `settings` has reported the file of clusters)
        clusters = ()
    for cluster in clusters:
        yield f"cluster {cluster}" if cluster else "cluster", partial(services.cluster, cluster, settings, seconds)
    for channel in settings.channel_names:
        if channel == OUTBOX:
            yield "channel outbox", partial(places.outbox, settings)
        else:
            yield f"channel {channel}", partial(services.channel, channel, settings, seconds)
    yield "senders", partial(places.senders, settings)
