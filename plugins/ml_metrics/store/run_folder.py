"""The run folder: how the tasks of a run pass files to each other.

`<storage root>/<test>/<run key>/` is the workload's: its event files, logs and metric streams are there. The subfolder
`_ml_metrics/` holds one JSON document from each task. A run can be read, judged and loaded again from this folder
alone. If a run that went well is cleared, its workload starts over in `_ml_metrics/generation-2/`; `workload.json`
states the generation, so that one write replaces both the end of the earlier workload and its folder.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import IO, Any, TypeVar

from ml_metrics.core.errors import FileMissingError, LaterVersionError, UnreadableInputError
from ml_metrics.core.limits import whole
from ml_metrics.core.model import JobStatus, Run, Workload
from ml_metrics.core.settings import Settings
from ml_metrics.core.text import logger_of
from ml_metrics.store import storage
from ml_metrics.store.documents import DOCUMENTS, Documents, place_of, without_non_finite

__all__ = ["DOCUMENTS", "RunFolder", "without_non_finite"]

log = logger_of(__name__)
T = TypeVar("T")
WRITERS = {
    "metrics": "collect_metrics",
    "goodput": "measure_goodput",
    "efficiency": "judge_run",
    "verdicts": "judge_run",
    "gate": "assert_success",
}
"""The tasks that write documents, but for `run_workload`."""


@dataclass(frozen=True, slots=True)
class Start:
    """Where the next attempt of the workload begins."""

    attempt: int
    generation: int


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The folder of one run, local or in a bucket. The workload may write anything there, at any time."""

    path: str
    root: str = field(default="", compare=False)
    """The storage root, below which nothing follows a link; empty if a user named the folder, which is trusted then."""
    limits: storage.ListingLimits = field(default=storage.LIMITS, compare=False)
    """How much of it is listed."""
    strict: bool = field(default=False, compare=False)
    """Whether a document that is not believed is an error, not only absent."""
    believe_unsigned: bool = field(default=False, compare=False)
    """Whether documents count that this deployment has not signed."""

    @classmethod
    def of(cls, run: Run, storage_root: str, limits: storage.ListingLimits = storage.LIMITS) -> RunFolder:
        """The same for every task, retry and clear."""
        return cls(storage.join(storage_root, run.test, run.key), storage_root, limits)

    @property
    def place(self) -> tuple[str, str]:
        return place_of(self.path)

    @property
    def is_in_place(self) -> bool:
        """Whether the path states test and run. A copy that is only looked at may have any name."""
        return self.strict or not self.believe_unsigned

    @property
    def documents(self) -> Documents:
        return self.documents_in()

    def documents_in(self, *names: str) -> Documents:
        found = Documents.of_run(self.path, *names, root=self.root)
        return replace(found, believe_unsigned=self.believe_unsigned)

    def read(self, document: str) -> dict[str, Any] | None:
        """None if the task wrote none. In a bucket this is a single request."""
        return self.parsed(document, lambda content: content)

    def parsed(self, document: str, parse: Callable[[dict[str, Any]], T]) -> T | None:
        """Return what a document states, or None if its task wrote none.

        A document that this deployment did not write for this run is absent, with a warning. One of a later version of
        this package is an error.
        """
        try:
            content = self.documents.read(document)
            try:
                return parse(content)
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
                raise UnreadableInputError(damage(self.document_path(document), document, error)) from error
        except FileMissingError:
            return None
        except UnreadableInputError as error:
            if self.strict or isinstance(error, LaterVersionError):
                raise
            log.warning("%s; it counts as absent", error)
            return None

    def write(self, document: str, content: dict[str, Any]) -> None:
        self.documents.write(document, content)

    def remove(self, document: str) -> None:
        self.documents.remove(document)

    def open_file(self, name: str) -> IO[bytes]:
        return self._folder.open(self._inside(DOCUMENTS, name))

    def write_file(self, name: str, data: bytes) -> None:
        self._folder.write(self._inside(DOCUMENTS, name), data)

    def file_names(self, name: str) -> list[str]:
        return [file.name for file in self._folder.files(self._inside(DOCUMENTS, name), limits=self.limits)]

    def read_workload(self) -> Workload | None:
        return self.parsed("workload", workload_in)

    def write_workload(self, workload: Workload) -> None:
        self.write("workload", asdict(workload))

    def next_start(self) -> Start:
        """Return where the next attempt begins. Nothing is written.

        The workload resumes from the checkpoints of a failed attempt; a run that already succeeded starts from scratch,
        in the folder of the next generation.
        """
        earlier = self.read_workload()
        if earlier is None:
            return Start(1, 1)
        return Start(earlier.attempts + 1, earlier.generation + (earlier.status is JobStatus.SUCCESS))

    def start_attempt(self) -> Start:
        """Prepare the folder for the workload's next attempt. Files stay; documents about earlier attempts go.

        The attempt counts, and its generation is that of the run, as soon as `workload.json` states it.
        """
        start = self.next_start()
        for document in ("metrics", "goodput", "efficiency", "verdicts", "gate"):
            self.remove(document)
        self._folder.make(self._inside(*_names_of(start.generation)))
        return start

    def workload_path(self, generation: int) -> str:
        return storage.join(self.path, *_names_of(generation))

    def document_path(self, document: str) -> str:
        return storage.join(self.path, DOCUMENTS, f"{document}.json")

    def files(self, on_unreadable: Callable[[str], None] | None = None) -> list[storage.File]:
        return self._folder.files(self._of_workload(), on_unreadable, self.limits, skip=DOCUMENTS)

    def take_away(self, name: str, aside: str) -> bool:
        """Move a folder of the workload out of its sight. False if there is none."""
        return self._folder.rename(self._of_workload(name), self._inside(DOCUMENTS, aside)) or (
            aside in self._folder.subfolders(self._inside(DOCUMENTS))
        )

    def bring_back(self, name: str, aside: str) -> None:
        """Move it back, if it is away. What the workload has put into its place meanwhile is kept aside."""
        if aside not in self._folder.subfolders(self._inside(DOCUMENTS)):
            return
        self._folder.rename(self._of_workload(name), self._inside(DOCUMENTS, f"{aside}-meanwhile"))
        self._folder.rename(self._inside(DOCUMENTS, aside), self._of_workload(name))

    def _of_workload(self, name: str = "") -> str:
        workload = self.read_workload()
        return self._inside(*_names_of(workload.generation if workload else 1), *filter(None, [name]))

    @property
    def _folder(self) -> storage.Folder:
        return storage.Folder(self.root or self.path)

    def _inside(self, *names: str) -> str:
        return "/".join((storage.relative(self.root, self.path), *names) if self.root else names)


def _names_of(generation: int) -> tuple[str, ...]:
    """The names, in the run folder, of the folder of a generation. The first is the run folder itself."""
    return (DOCUMENTS, f"generation-{generation}") if generation > 1 else ()


def listing_limits(settings: Settings) -> storage.ListingLimits:
    keys = ("listed_files", "listed_name_bytes", "listed_depth")
    return storage.ListingLimits(*(whole(key, getattr(settings, key)) for key in keys))


def damage(path: str, document: str, error: Exception) -> str:
    """What is wrong with a document that this deployment wrote, and what to do."""
    found = f"it has no {error.args[0]!r}" if isinstance(error, KeyError) else f"{type(error).__name__}: {error}"
    return (
        f"{path}: is damaged, or of another version of ML Metrics: {found}. Clear the task `{writer_of(document)}` of "
        "the run, which writes it again"
    )


def writer_of(document: str) -> str:
    return WRITERS.get(document, "run_workload")


def workload_in(content: dict[str, Any]) -> Workload:
    fields = {name: content[name] for name in Workload.__dataclass_fields__ if name in content}
    generation = fields.get("generation", 1)
    if not (type(generation) is int and generation >= 1):
        raise ValueError(f"generation {generation!r}")
    for name in ("queued_at", "scheduled_at", "started_at", "ended_at"):
        if fields.get(name):
            fields[name] = datetime.fromisoformat(fields[name])
    fields["earlier"] = tuple(
        (datetime.fromisoformat(start), datetime.fromisoformat(end) if end else None)
        for start, end in fields.get("earlier", ())
    )
    return Workload(**{**fields, "status": JobStatus(content["status"])})
