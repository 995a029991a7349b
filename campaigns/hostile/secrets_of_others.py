"""What must not be reached: files of other teams and of Airflow, with words and numbers that nothing else has."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from unit.measure.events.event_files import event, simple, write

WORD = "canary-7f3a91c2"
"""A part of every secret. Whatever shows it has reached one."""
NUMBER = 424242.125
"""The value of every point of another team."""
ENCODED = tuple(base64.b64encode(b" " * shift + WORD.encode())[4:-4].decode() for shift in range(3))
"""Its middle in base64, however it is placed in a longer text."""
SPELLINGS = tuple(one.encode() for one in (WORD, WORD[::-1], WORD.upper(), WORD.encode().hex(), str(NUMBER), *ENCODED))


@dataclass(frozen=True)
class Secrets:
    """Files in a folder that no run may read."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Secrets:
        """Write them in every form that the product reads."""
        folder.mkdir(parents=True)
        lines = [{"admin": WORD}, {"step": 1, "stolen": NUMBER}, {"metrics": {"stolen": NUMBER, WORD: 1.0}}]
        (folder / "lines.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        (folder / "table.csv").write_text(f"step,stolen,{WORD}\n1,{NUMBER},2\n")
        (folder / "text.txt").write_text(f"{WORD}\n{NUMBER}\n")
        benchmark = {"benchmark_result": {"metrics": [{"name": "stolen", "value": NUMBER}]}, "process_info": {WORD: 1}}
        (folder / "perfzero_summary.json").write_text(json.dumps(benchmark))
        write(folder, event(1, simple("stolen", NUMBER)), name="events.out.tfevents.1.host")
        return cls(folder)

    @property
    def files(self) -> list[Path]:
        """All of them."""
        return sorted(path for path in self.folder.rglob("*") if path.is_file())


def leaks(folder: Path, *, without: tuple[Path, ...] = ()) -> list[str]:
    """Return the files below a folder that hold a secret, other than those without."""
    found = []
    for path in regular_files(folder):
        if any(path.is_relative_to(one) for one in without) or path.stat().st_size > 1 << 27:
            continue
        content = path.read_bytes()
        found += [f"{path}: {one.decode()}" for one in SPELLINGS if one in content]
    return found


def fingerprint(*folders: Path) -> dict[str, str]:
    """Return what is in folders: a hash for each file, and where each link leads to."""
    return {str(path): _content(path) for folder in folders for path in sorted(folder.rglob("*"))}


def regular_files(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder. No link is followed."""
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            yield path


def _content(path: Path) -> str:
    if path.is_symlink():
        return f"link to {path.readlink()}"
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
