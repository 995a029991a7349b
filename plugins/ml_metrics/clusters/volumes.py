"""The volumes of a test as Kubernetes objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ml_metrics.config.naming import as_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ml_metrics.config.pod import Volume

BUCKET_DRIVER = "gcsfuse.csi.storage.gke.io"
"""The GKE driver that mounts Cloud Storage."""

Parts = list[dict[str, Any]]


def mounts_and_volumes(volumes: Mapping[str, Volume]) -> tuple[Parts, Parts, dict[str, str]]:
    """Return the mounts of the container, the volumes of the pod, and the annotations that they need."""
    mounts: Parts = []
    sources: Parts = []
    for number, (path, volume) in enumerate(volumes.items()):
        name = f"{as_name(path)[:50]}-{number}".lstrip("-")
        mounts.append({"name": name, "mountPath": path, **({"readOnly": True} if volume.read_only else {})})
        sources.append({"name": name, **_source(volume)})
    bucket = any(volume.bucket for volume in volumes.values())
    return mounts, sources, {"gke-gcsfuse/volumes": "true"} if bucket else {}


def _source(volume: Volume) -> dict[str, Any]:
    sources: dict[str, dict[str, Any]] = {
        "claim": {"persistentVolumeClaim": {"claimName": volume.claim}},
        "config_map": {"configMap": {"name": volume.config_map}},
        "secret": {"secret": {"secretName": volume.secret}},
        "host_path": {"hostPath": {"path": volume.host_path}},
        "bucket": {"csi": {"driver": BUCKET_DRIVER, "volumeAttributes": {"bucketName": volume.bucket}}},
        "memory": {"emptyDir": {"medium": "Memory", "sizeLimit": volume.memory}},
        "scratch": {"emptyDir": {"sizeLimit": volume.scratch}},
    }
    return sources[volume.kind]
