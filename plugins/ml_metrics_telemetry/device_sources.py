"""Where samples of devices come from: the text of a DCGM exporter, from an address or a file, and `tpu-info`."""

from __future__ import annotations

import os
import signal
import subprocess
import urllib.request
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MOST = 4 << 20
"""The bytes of one sample. A larger one is refused as a whole: half of the devices would be a wrong average."""
LONGEST_LINE = 4_000
REAPED = 5.0
"""The seconds in which a killed program has to be gone."""
TPU_INFO = "tpu-info"
DCGM = b"DCGM_FI_"


class SampleError(Exception):
    """There is no sample, for a reason that can be named."""


class Source(NamedTuple):
    """What is read, and the name of the file that holds it."""

    label: str
    """What messages call it."""
    stem: str
    suffix: str
    read: Callable[[], bytes]
    """Returns whole lines, or raises."""


def source_of(text: str) -> Source:
    """Return the source with this address, path or name.

    Raises:
        ValueError: The address is not usable.
    """
    if text == TPU_INFO:
        return Source(text, "tpu-info", ".txt", _tpu_info)
    if "://" not in text:
        return Source(text, "dcgm", ".prom", lambda: dcgm_lines(_file(text)))
    address = urlsplit(text)
    if address.scheme not in ("http", "https") or not address.hostname:
        raise ValueError("the source is neither http://HOST:PORT/PATH, nor a path, nor tpu-info")
    if "@" in address.netloc:
        raise ValueError("the address of the source has a user or a password: the DCGM exporter needs none")
    _ = address.port  # a port that is no number is an error now, not at each sample
    label = f"{address.scheme}://{address.netloc}{address.path}"
    return Source(label, "dcgm", ".prom", lambda: dcgm_lines(_answer(text)))


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in the block after so many seconds, however slowly a server sends. Only in a main thread."""

    def give_up(*_: object) -> None:
        raise TimeoutError(f"no whole answer within {seconds:g} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def dcgm_lines(text: bytes) -> bytes:
    """Return the lines of the DCGM exporter, without comments and what is no line of it.

    Raises:
        SampleError: There are none.
    """
    whole = text[: text.rfind(b"\n") + 1]
    lines = [line for line in whole.splitlines() if line.startswith(DCGM) and len(line) <= LONGEST_LINE]
    if not lines:
        raise SampleError("the answer has no line of the DCGM exporter")
    return b"\n".join(lines) + b"\n"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Leave the redirect as the error that it is: the exporter does not redirect."""


def _answer(address: str) -> bytes:
    # the exporter is on this machine: proxies of the environment do not reach it
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect())
    with opener.open(address) as response:
        return _bounded(response)


def _file(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return _bounded(file)


def _tpu_info() -> bytes:
    """Run `tpu-info`. What it started is killed with it."""
    process = subprocess.Popen(
        [TPU_INFO],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        bufsize=0,
    )
    stdout: Any = process.stdout
    try:
        text = _bounded(stdout)
        status = process.wait()
    finally:
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        with stdout, suppress(subprocess.TimeoutExpired):
            process.wait(REAPED)
    if status:
        raise SampleError(f"exit status {status}")
    if not text.strip():
        raise SampleError("it printed nothing")
    return text if text.endswith(b"\n") else text + b"\n"


def _bounded(stream: Any) -> bytes:
    parts: list[bytes] = []
    size = 0
    while size <= MOST:
        part = stream.read(min(MOST + 1 - size, 1 << 16))
        if not part:
            return b"".join(parts)
        parts.append(part)
        size += len(part)
    raise SampleError(f"the answer is larger than {MOST >> 20} MiB")
