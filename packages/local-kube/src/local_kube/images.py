"""Images, which this cluster neither pulls nor needs: only what would be wrong with them on any cluster.

A name that is no image reference is refused, and a registry that cannot exist cannot be pulled from: the top-level
domain `.invalid` is reserved for that, so tests and demos can ask for an image that fails everywhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*(?::[0-9]+)?/)?"
PATH = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
REFERENCE = re.compile(rf"({HOST})({PATH}(?:/{PATH})*)(:[\w][\w.-]{{0,127}})?(@[a-z0-9]+:[a-fA-F0-9]{{32,}})?")
LONGEST_NAME = 255


@dataclass(frozen=True, slots=True)
class PullFailure:
    """Why an image cannot be had, in the kubelet's words."""

    reason: str
    message: str
    final: bool
    """True if trying again cannot help, so the kubelet does not."""


def pull_failure(image: str) -> PullFailure | None:
    """What is wrong with an image; None if nothing is."""
    found = REFERENCE.fullmatch(image)
    if found is None or len(found[1] + found[2]) > LONGEST_NAME:
        why = f'couldn\'t parse image name "{image}": invalid reference format'
        return PullFailure("InvalidImageName", f'Failed to apply default image tag "{image}": {why}', final=True)
    host = found[1].rstrip("/").partition(":")[0]
    if host.endswith(".invalid"):
        name = image if found[3] or found[4] else f"{image}:latest"
        message = (
            f'failed to pull and unpack image "{name}": failed to resolve reference "{name}": failed to do request: '
            f'Head "https://{found[1]}v2/": dial tcp: lookup {host}: no such host'
        )
        return PullFailure("ErrImagePull", message, final=False)
    return None
