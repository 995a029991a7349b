"""Project, zone and accelerator of this machine, from the metadata server of Google Cloud."""

from __future__ import annotations

import os
import urllib.error
import urllib.request

HOST = "GCE_METADATA_HOST"
"""The environment variable with which Google's libraries configure another metadata server."""
TIMEOUT_SECONDS = 3.0

_ACCELERATORS = {
    "tpu7x": "TPU-7x",
    "ct6e": "TPU-v6e",
    "ct5p": "TPU-v5p",
    "ct5lp": "TPU-v5e",
    "ct5l": "TPU-v5e",
    "ct4p": "TPU-v4p",
    "ct3p": "TPU-v3",
    "ct3": "TPU-v3",
    "a3-edgegpu": "NVIDIA-H100",
    "a3-highgpu": "NVIDIA-H100",
    "a3-megagpu": "NVIDIA-H100",
    "a3-ultragpu": "NVIDIA-H200",
    "a2": "NVIDIA-A100",
}
"""The names of accelerators in ml-goodput-measurement, by a part of the machine type."""


def project_id() -> str | None:
    """Return the project of this machine."""
    return _read("project/project-id")


def zone() -> str | None:
    """Return the zone of this machine."""
    return _last(_read("instance/zone"))


def accelerator_type() -> str | None:
    """Return the accelerator of this machine, if its machine type determines it."""
    machine = (_last(_read("instance/machine-type")) or "").lower()
    return next((kind for part, kind in _ACCELERATORS.items() if part in machine), None)


def _read(path: str) -> str | None:
    address = f"http://{os.environ.get(HOST) or 'metadata.google.internal'}/computeMetadata/v1/{path}"
    request = urllib.request.Request(address, headers={"Metadata-Flavor": "Google"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # the server is never behind a proxy
    try:
        with opener.open(request, timeout=TIMEOUT_SECONDS) as answer:
            return str(answer.read(1024).decode().strip()) or None
    except (OSError, ValueError):  # no metadata server: this machine is not in Google Cloud
        return None


def _last(text: str | None) -> str | None:
    """Return `a3-highgpu-8g` for `projects/123/machineTypes/a3-highgpu-8g`."""
    return text.rpartition("/")[2] if text else None
