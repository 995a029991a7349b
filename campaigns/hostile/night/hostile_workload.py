"""A workload that does what it can against others: one act for each run, named by the end of the run's name.

What it reached is in `reached.json` of its own run folder: places that it could read, write or signal although they
are not its own. It changes nothing that it does not make itself, sends no signal but 0, and ends by itself.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

FOLDER = Path(os.environ["MODEL_DIR"])
ROOT = FOLDER.parents[1]
HOME = ROOT.parents[1]
"""Airflow's home: another team's workload can guess it from the place of its own folder."""
VICTIM = "innocent"
PATIENCE = 10
"""The runs of both tests begin at once: so many seconds until the other has a folder."""
OWN = FOLDER / "_ml_metrics"
FORGED = {"job_status": "success", "outcome": "pass", "verdict": "pass", "delivered": ["outbox"], "state": "delivered"}
DOCUMENTS = (
    "run",
    "workload",
    "metrics",
    "goodput",
    "verdicts",
    "judged",
    "gate",
    "told",
    "logs",
    "message",
    "warnings",
)


def main() -> None:
    act = os.environ["RUN"].rsplit("-", 1)[1]
    reached = {"act": act, "uid": os.getuid(), "reached": ACTS[act]()}
    text = json.dumps(reached)
    print(text)
    with suppress(OSError):
        (FOLDER / "reached.json").write_text(text)
    print(json.dumps({"step": 1, "loss": 0.1}), file=(FOLDER / "train.jsonl").open("a"))
    sys.exit(int(os.environ["RUN"].rsplit("-", 2)[1]) % 2)


def victims() -> list[Path]:
    """Return the innocent test's run folders; if they cannot be listed, a folder of a name that the test can have."""
    for _ in range(PATIENCE):
        with suppress(OSError):
            if found := sorted((ROOT / VICTIM).iterdir()):
                return found
        time.sleep(1)
    return [ROOT / VICTIM / "6c8b2a52-5c39-5b8b-9d0e-6f7f6b2f3f11"]


def links() -> list[str]:
    """Links to other's files under every name that the product reads or writes."""
    made = []
    for number, victim in enumerate(victims()):
        for name, target in (
            (f"events.out.tfevents.1.victim-{number}", victim / "events.out.tfevents.1"),
            (f"stolen-{number}.jsonl", victim / "train.jsonl"),
            (f"telemetry.{number}.jsonl", victim / "_ml_metrics" / "run.json"),
            (f"folder-{number}", victim),
        ):
            made += linked(FOLDER / name, target)
    made += linked(FOLDER / "telemetry.passwords.jsonl", HOME / "simple_auth_manager_passwords.json.generated")
    made += linked(FOLDER / "perfzero_summary.json", HOME / "airflow.cfg")
    with suppress(OSError):
        os.mkfifo(FOLDER / "telemetry.pipe.jsonl")
    # the folder of documents itself, now and for the next attempt
    with suppress(OSError):
        OWN.rename(FOLDER / "_moved")
    made += linked(OWN, victims()[-1] / "_ml_metrics")
    made += linked(FOLDER / "_ml_metrics.tmp", HOME / "config")
    return []


def linked(link: Path, target: Path) -> list[str]:
    with suppress(OSError):
        link.symlink_to(target)
        return [str(link)]
    return []


def forgeries() -> list[str]:
    """Documents that name another test, say that all is well, or cannot be read."""
    (victim,) = victims()[-1:]
    identity = {
        "test": VICTIM,
        "dag_id": VICTIM,
        "run_id": os.environ["RUN"],
        "deployment": "local",
        "key": victim.name,
    }
    nested = "[" * 100_000
    for name in DOCUMENTS:
        for path in (OWN / f"{name}.json", OWN / "messages" / f"{name}.json", OWN / f"{name}.sent.json"):
            content = json.dumps({**identity, **FORGED}) if len(name) % 2 else nested
            with suppress(OSError):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content)
    return []


def flood() -> list[str]:
    """More of everything than a run may have."""
    with (FOLDER / "many.jsonl").open("w") as file:
        for tag in range(20_000):
            print(json.dumps({"step": 1, f"g/{'a' * 24}{tag}!": tag}), file=file)
    with (FOLDER / "perfzero_summary.json").open("wb") as file:
        file.truncate(2 << 30)
    (FOLDER / "bomb.jsonl.gz").write_bytes(gzip.compress(b"[]," * 30_000_000, 9))
    (FOLDER / "nested.jsonl").write_text("[" * 1_000_000 + "\n")
    with (FOLDER / "telemetry.sparse.jsonl").open("wb") as file, suppress(OSError):
        file.truncate(1 << 43)
    crowd = FOLDER / "crowd"
    crowd.mkdir()
    for number in range(20_000):
        (crowd / f"events.out.tfevents.{number}.x").touch()
    deep = FOLDER
    with suppress(OSError):
        for _ in range(300):
            deep = deep / "deep"
            deep.mkdir()
    return []


def noise() -> list[str]:
    """A log that pretends to be Airflow's, and names that forge lines."""
    for name in (
        "\x1b]0;owned\x07.jsonl",
        "x\n[2026-01-01] {task.py:1} ERROR - innocent failed.jsonl",
        "\u202egpj.jsonl",
    ):
        with suppress(OSError):
            (FOLDER / name).write_text("{]\n")
    for line in (
        "\x1b[2J\x1b[H\x1b]0;owned\x07",
        "::group::innocent failed",
        f"{VICTIM}: delivered by outbox",
        "ERROR - the run of test innocent failed\r",
        "x" * 3_000_000,
    ):
        print(line)
    return []


def wander() -> list[str]:
    """Read, write and signal whatever answers, and report only that it did, without content of others."""
    reached = [f"reads {path}" for path in others_files() if is_readable(path)]
    reached += [f"writes {path}" for path in others_folders() if is_writable(path)]
    with suppress(OSError):
        for process in (path.name for path in Path("/proc").iterdir() if path.name.isdigit()):
            if int(process) not in {os.getpid(), os.getppid()}:
                reached += touched(process)
    return reached


def others_files() -> Iterator[Path]:
    yield from (HOME / name for name in ("airflow.cfg", "airflow.db", "simple_auth_manager_passwords.json.generated"))
    yield HOME / "ml_metrics" / "warehouse.db"
    yield from (HOME / "ml_metrics" / "cluster").glob("**/*kubeconfig*")
    for victim in victims():
        yield victim / "train.jsonl"
        yield victim / "_ml_metrics" / "run.json"


def others_folders() -> Iterator[Path]:
    yield from (
        HOME,
        HOME / "config",
        HOME / "metric_configs",
        HOME / "ml_metrics",
        HOME / "ml_metrics" / "outbox",
        ROOT,
    )
    yield from victims()


def is_readable(path: Path) -> bool:
    with suppress(OSError), path.open("rb") as file:
        return bool(file.read(1))
    return False


def is_writable(folder: Path) -> bool:
    probe = folder / f"probe-{os.getpid()}"
    with suppress(OSError):
        probe.touch()
        probe.unlink()
        return True
    return False


def touched(process: str) -> Iterator[str]:
    """Yield what may be done to a process: read its environment, send it a signal."""
    with suppress(OSError):
        if b"=" in Path("/proc", process, "environ").read_bytes():
            yield f"reads the environment of process {title(process)}"
    with suppress(OSError):
        os.kill(int(process), 0)
        yield f"signals process {title(process)}"


def title(process: str) -> str:
    with suppress(OSError):
        return Path("/proc", process, "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:60].strip()
    return process


ACTS: dict[str, Callable[[], list[str]]] = {
    "links": links,
    "forgeries": forgeries,
    "flood": flood,
    "noise": noise,
    "wander": wander,
}


if __name__ == "__main__":
    main()
