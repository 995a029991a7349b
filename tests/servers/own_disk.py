"""Commands in mount namespaces of their own, where the kernel lets the tests have them."""

from __future__ import annotations

import os
import shutil
import subprocess


def namespace() -> list[str]:
    """Return the command before a command that gives it mounts of its own; empty if that is not allowed here."""
    command = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-Urm"]
    return command if can_mount(command) else []


def can_mount(command: list[str]) -> bool:
    """Whether a process can have file systems of its own here."""
    if not shutil.which("unshare"):
        return False
    tried = [*command, "sh", "-c", "mount -t tmpfs -o size=64k tried /mnt"]
    return subprocess.run(tried, check=False, capture_output=True).returncode == 0
