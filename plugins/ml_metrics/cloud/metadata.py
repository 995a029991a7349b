"""What a machine of Google Cloud knows about itself, from its metadata server."""

from __future__ import annotations

import os
import urllib.error
import urllib.request

HOST = "GCE_METADATA_HOST"
"""The variable by which Google's own libraries are told of another metadata server."""
SECONDS = 3.0

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
"""How ml-goodput-measurement calls the accelerators of a machine type, by a part of its name."""


def project_id() -> str | None:
    """The project of this machine."""
    return _asked("project/project-id")


def zone() -> str | None:
    """The zone of this machine."""
    return _last(_asked("instance/zone"))


def accelerator_type() -> str | None:
    """What computes here, if the machine type tells it."""
    machine = (_last(_asked("instance/machine-type")) or "").lower()
    return next((kind for part, kind in _ACCELERATORS.items() if part in machine), None)


def _asked(path: str) -> str | None:
    address = f"http://{os.environ.get(HOST) or 'metadata.google.internal'}/computeMetadata/v1/{path}"
    request = urllib.request.Request(address, headers={"Metadata-Flavor": "Google"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # it is never behind a proxy
    try:
        with opener.open(request, timeout=SECONDS) as answer:
            return str(answer.read(1024).decode().strip()) or None
    except (OSError, ValueError):  # no such server: not a machine of Google Cloud
        return None


def _last(text: str | None) -> str | None:
    """`a3-highgpu-8g` of `projects/123/machineTypes/a3-highgpu-8g`."""
    return text.rpartition("/")[2] if text else None
