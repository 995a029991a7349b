"""Image names, which the cluster validates but never pulls.

A malformed name is rejected as on any cluster. A registry below the reserved top-level domain `.invalid` cannot exist,
so an image from there fails to be pulled on every cluster: tests and demos can use it to see that failure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*(?::[0-9]+)?/)?"
PATH = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
REFERENCE = re.compile(rf"({HOST})({PATH}(?:/{PATH})*)(:[\w][\w.-]{{0,127}})?(@[a-z0-9]+:[a-fA-F0-9]{{32,}})?")
MAX_NAME_LENGTH = 255


@dataclass(frozen=True, slots=True)
class PullFailure:
    """The reason why an image cannot be pulled, with the kubelet's message."""

    reason: str
    message: str
    final: bool
    """True if the kubelet does not retry."""


def pull_failure(image: str) -> PullFailure | None:
    """Return why an image cannot be pulled; None if the cluster accepts it."""
    found = REFERENCE.fullmatch(image)
    if found is None or len(found[1] + found[2]) > MAX_NAME_LENGTH:
        detail = f'couldn\'t parse image name "{image}": invalid reference format'
        return PullFailure("InvalidImageName", f'Failed to apply default image tag "{image}": {detail}', final=True)
    host = found[1].rstrip("/").partition(":")[0]
    if host.endswith(".invalid"):
        name = image if found[3] or found[4] else f"{image}:latest"
        message = (
            f'failed to pull and unpack image "{name}": failed to resolve reference "{name}": failed to do request: '
            f'Head "https://{found[1]}v2/": dial tcp: lookup {host}: no such host'
        )
        return PullFailure("ErrImagePull", message, final=False)
    return None
