"""The process that uploads what a program writes into a local folder: `python -m ml_metrics_telemetry.uploads`.

It ends when the program has ended, in whatever way: the pipe from the program is closed then.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from typing import Any

TYPE_CHECKING = False  # as type checkers know it
if TYPE_CHECKING:
    from collections.abc import Iterator

INTERVAL = 2.0
"""Seconds between two checks of the folder. Buckets limit writes to the same object to one per second."""
SPARING = 10
"""A growing file is uploaded again after this multiple of its last upload time: each upload copies all of it."""
TRIES, PAUSE = 6, 10.0
"""How many times to try the last upload, and the seconds between two tries."""


def main(local: str, remote: str) -> int:
    """Upload a folder until the program has ended, and once more. Returns the exit status."""
    ended = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.buffer.read(1)
        ended.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    uploads = Uploads(local, remote)
    while not ended.wait(INTERVAL):
        uploads.upload()
    for number in range(TRIES):
        if number:
            time.sleep(PAUSE)
        if uploads.upload(everything=True):
            shutil.rmtree(local, ignore_errors=True)
            return 0
    sys.stderr.write(f"{local}: not all files are in {remote}\n")
    return 1


class Uploads:
    """Copies of the files of a folder in a bucket. What a copy was made of is not copied again."""

    def __init__(self, local: str, remote: str) -> None:
        self._local, self._remote = local, remote.rstrip("/")
        self._filesystem: Any = None
        self._copied: dict[str, tuple[int, int]] = {}
        self._due: dict[str, float] = {}

    def upload(self, *, everything: bool = False) -> bool:
        """Copy the files that have changed, and with `everything` also those that change often. True if all worked."""
        worked = True
        for name, version in self._files():
            if version == self._copied.get(name) or (not everything and time.monotonic() < self._due.get(name, 0.0)):
                continue
            began = time.monotonic()
            try:
                self._copy(name)
                self._copied[name] = version
            except Exception as error:  # noqa: BLE001  (of any bucket's client: the next look tries again)
                worked = False
                sys.stderr.write(f"{self._remote}/{name}: {type(error).__name__}: {error}\n")
            now = time.monotonic()
            self._due[name] = now + SPARING * (now - began)
        return worked

    def _files(self) -> Iterator[tuple[str, tuple[int, int]]]:
        for folder, _, names in os.walk(self._local):
            for name in sorted(names):
                path = os.path.join(folder, name)
                try:
                    found = os.stat(path, follow_symlinks=False)
                except OSError:
                    continue  # it was removed since
                if os.path.isfile(path) and not os.path.islink(path):
                    yield os.path.relpath(path, self._local).replace(os.sep, "/"), (found.st_size, found.st_mtime_ns)

    def _copy(self, name: str) -> None:
        if self._filesystem is None:
            import fsspec

            self._filesystem = fsspec.core.url_to_fs(self._remote)[0]
        try:
            self._filesystem.put_file(os.path.join(self._local, *name.split("/")), f"{self._remote}/{name}")
        except FileNotFoundError:
            if os.path.exists(os.path.join(self._local, *name.split("/"))):
                raise


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
