"""Archives whose bytes follow from their content alone: sorted, with one time, one owner and fixed modes."""

from __future__ import annotations

import gzip
import io
import stat
import tarfile
import time
import zipfile
from typing import TYPE_CHECKING

from release.tree import EXECUTABLE, FOLDER, PLAIN

if TYPE_CHECKING:
    from pathlib import Path

FIRST_YEAR = 1980
"""A zip file knows no earlier one."""


def normalise_sdist(path: Path, epoch: int) -> None:
    """Write a source archive again."""
    with tarfile.open(path) as archive:
        members = sorted(archive.getmembers(), key=lambda member: member.name)
        content = {m.name: file.read() for m in members if (file := archive.extractfile(m))}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for member in members:
            if not (member.isfile() or member.isdir()):
                raise ValueError(f"{path.name}: {member.name} is neither a file nor a folder")
            plain = tarfile.TarInfo(member.name)
            plain.type, plain.size, plain.mtime = member.type, member.size, epoch
            plain.mode = FOLDER if member.isdir() else _mode(member.mode)
            archive.addfile(plain, io.BytesIO(content[member.name]) if member.isfile() else None)
    with path.open("wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=epoch) as zipped:
        zipped.write(packed.getvalue())


def normalise_wheel(path: Path, epoch: int) -> None:
    """Write a wheel again, with the metadata last, as the format recommends."""
    with zipfile.ZipFile(path) as wheel:
        files = [(info, wheel.read(info)) for info in wheel.infolist() if not info.is_dir()]
    files.sort(key=lambda each: (".dist-info/" in each[0].filename, each[0].filename))
    date = time.gmtime(epoch)[:6]
    if date[0] < FIRST_YEAR:
        raise ValueError(f"SOURCE_DATE_EPOCH={epoch} is before {FIRST_YEAR}, which a wheel cannot express")
    with zipfile.ZipFile(path, "w") as wheel:
        for info, data in files:
            plain = zipfile.ZipInfo(info.filename, date)
            plain.create_system = 3  # Unix, whose modes follow
            plain.external_attr = (stat.S_IFREG | _mode(info.external_attr >> 16)) << 16
            wheel.writestr(plain, data, zipfile.ZIP_DEFLATED, 6)


def _mode(mode: int) -> int:
    return EXECUTABLE if mode & 0o100 else PLAIN
