"""The files of all formats; `samples/README.md` says which program wrote each, and which are by a definition."""

from io import BytesIO
from pathlib import Path

from ml_metrics.store import storage

SAMPLES = Path(__file__).parent / "samples"
BESIDE = Path(__file__).parents[6] / "shared" / "formats"
"""Files of other programs and authors, where they lie beside the project. They may not be copied into it."""
FORMAT_OF_PROGRAM = {
    "asv": "asv", "custom-json": "github-action-benchmark", "dllogger": "dllogger",
    "google-benchmark": "google-benchmark", "hyperfine": "hyperfine", "pytest-benchmark": "pytest-benchmark",
}  # fmt: skip
"""By the first part of the name of a file beside the project. A file of another program is of no known format."""


def own_samples() -> list[tuple[str, Path]]:
    """Return each sample with the name of its format, which is the name of its folder."""
    return [
        (path.relative_to(SAMPLES).parts[0], path)
        for path in sorted(SAMPLES.glob("*/**/*"))
        if path.is_file() and not path.name.startswith(".")
    ]


def samples_beside() -> list[tuple[str | None, Path]]:
    """Return each file beside the project with the name of its format, None if it is of none."""
    paths = sorted(BESIDE.glob("*.*")) if BESIDE.is_dir() else []
    return [(FORMAT_OF_PROGRAM.get(path.name.split(".")[0]), path) for path in paths]


class InMemory(storage.File):
    """A file in memory."""

    def __init__(self, data: bytes, name: str) -> None:
        super().__init__("", name, len(data))
        object.__setattr__(self, "data", data)

    def open(self) -> BytesIO:  # type: ignore[override]
        return BytesIO(self.data)  # type: ignore[attr-defined]
