"""What a hostile workload does to its own run folder, as records that `villain.py` carries out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from campaigns.hostile import villain

Deed = dict[str, Any]
NAMES = (
    "metrics.jsonl", "telemetry.a.jsonl", "telemetry.jsonl.gz", "goodput.jsonl", "goodput.h-1.jsonl",
    "goodput.20260101T000000-host-1.jsonl", "results.csv", "results.tsv", "perfzero_summary.json",
    "events.out.tfevents.1.host", "train/events.out.tfevents.2.host", "plugins/profile/1/host.xplane.pb",
)  # fmt: skip
"""A name for every reader of a workload's files."""
DOCUMENTS = "_ml_metrics"
DOCUMENT_NAMES = (
    "run.json", "workload.json", "metrics.json", "goodput.json", "verdicts.json", "gate.json", "told.json", "logs.json",
    "messages/001-broken-0.json", "messages/001-broken-0.sent.json",
)  # fmt: skip
HONEST: tuple[Deed, ...] = ({"do": "write", "at": "honest.jsonl", "text": '{"step": 1, "loss": 0.5}\n'},)


def command(*deeds: Deed) -> list[str]:
    """Return the command of a workload that does these deeds."""
    return ["python3", "-c", Path(villain.__file__).read_text(), json.dumps(deeds)]


def do_all(folder: Path, deeds: tuple[Deed, ...] | list[Deed]) -> None:
    """Do the deeds in a folder of this process, as the workload would."""
    for deed in deeds:
        try:
            villain.do(deed, folder)
        except (OSError, ValueError):
            continue  # it stands in its own way


def links(*targets: Path) -> st.SearchStrategy[list[Deed]]:
    """Links of every shape in place of a file, a folder, or a document: straight, by a chain, by a folder, relative."""
    return st.builds(_link, st.sampled_from(SHAPES), st.sampled_from(NAMES + tuple(map(_document, DOCUMENT_NAMES))),
                     st.sampled_from(targets))  # fmt: skip


SHAPES = ("straight", "relative", "chain", "folder", "parent", "proc", "hard", "dots", "long chain", "upper")


def _document(name: str) -> str:
    return f"{DOCUMENTS}/{name}"


def _link(shape: str, at: str, target: Path) -> list[Deed]:
    name, up = Path(at).name, "../" * at.count("/")
    hops = 31 if shape == "long chain" else 1
    place, to = {
        # so many parents lead to the root, from wherever the folder is
        "relative": (at, f"{'../' * 40}{str(target).lstrip('/')}"),
        "chain": (at, f"{up}.hop0"),
        "long chain": (at, f"{up}.hop0"),
        # a folder that is a link, with the wanted name in it if the target is called so
        "folder": (f"linked-{name}", str(target.parent)),
        "parent": (at.rpartition("/")[0] or "sub", str(target.parent)),
        "proc": (at, f"/proc/self/root{target}"),
        "dots": (at, f"{target.parent}/./../{target.parent.name}/{target.name}"),
        "upper": (f"{at}/..{name}", str(target)),
    }.get(shape, (at, str(target)))
    last: Deed = {"do": "hardlink" if shape == "hard" else "symlink", "at": place, "to": to, "instead": True}
    if not shape.endswith("chain"):
        return [last]
    targets = [*(f".hop{number + 1}" for number in range(hops - 1)), str(target)]
    return [*({"do": "symlink", "at": f".hop{n}", "to": to, "instead": True} for n, to in enumerate(targets)), last]
