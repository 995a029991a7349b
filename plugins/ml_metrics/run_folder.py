"""The run folder: how the tasks of a run pass files to each other.

`<storage root>/<test>/<run key>/` is the workload's: its event files, logs and metric streams are there. The subfolder
`_ml_metrics/` holds one JSON document from each task. A run can be read, judged and loaded again from this folder
alone.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import IO, TYPE_CHECKING, Any, TypeVar

from ml_metrics import storage
from ml_metrics.documents import DOCUMENTS, Documents, place_of, without_non_finite
from ml_metrics.errors import ConfigError, FileMissingError, UnreadableInputError
from ml_metrics.log_lines import logger_of
from ml_metrics.model import JobStatus, Run, Workload

if TYPE_CHECKING:
    from collections.abc import Callable

    from ml_metrics.settings import Settings

__all__ = ["DOCUMENTS", "RunFolder", "without_non_finite"]

log = logger_of(__name__)
T = TypeVar("T")


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
        """Return the folder of a run, which is the same for every task, retry and clear."""
        return cls(storage.join(storage_root, run.test, run.key), storage_root, limits)

    @property
    def place(self) -> tuple[str, str]:
        """The test and the run key, as the path states them."""
        return place_of(self.path)

    @property
    def is_in_place(self) -> bool:
        """Whether the path states test and run. A copy that is only looked at may have any name."""
        return self.strict or not self.believe_unsigned

    @property
    def documents(self) -> Documents:
        """The documents of the tasks."""
        return self.documents_in()

    def documents_in(self, *names: str) -> Documents:
        """Return the documents in a folder beside those of the tasks."""
        found = Documents.of_run(self.path, *names, root=self.root)
        return replace(found, believe_unsigned=self.believe_unsigned)

    def read(self, document: str) -> dict[str, Any] | None:
        """Return a task's document, or None if the task wrote none. In a bucket this is a single request."""
        return self.parsed(document, lambda content: content)

    def parsed(self, document: str, parse: Callable[[dict[str, Any]], T]) -> T | None:
        """Return what a document states, or None if its task wrote none.

        A document that this deployment did not write for this run is absent, with a warning.
        """
        try:
            content = self.documents.read(document)
            try:
                return parse(content)
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
                raise UnreadableInputError(f"{self.document_path(document)}: is damaged: {error!r}") from error
        except FileMissingError:
            return None
        except UnreadableInputError as error:
            if self.strict:
                raise
            log.warning("%s; it counts as absent", error)
            return None

    def write(self, document: str, content: dict[str, Any]) -> None:
        """Write a task's document, completely or not at all."""
        self.documents.write(document, content)

    def remove(self, document: str) -> None:
        """Remove a document that is out of date."""
        self.documents.remove(document)

    def open_file(self, name: str) -> IO[bytes]:
        """Open a file beside the documents, such as a log."""
        return self._folder.open(self._inside(DOCUMENTS, name))

    def write_file(self, name: str, data: bytes) -> None:
        """Write a file beside the documents. It is not signed."""
        self._folder.write(self._inside(DOCUMENTS, name), data)

    def file_names(self, name: str) -> list[str]:
        """Return the names of the files in a folder beside the documents."""
        return [file.name for file in self._folder.files(self._inside(DOCUMENTS, name), limits=self.limits)]

    def read_workload(self) -> Workload | None:
        """Return how the workload went, or None if none was started."""
        return self.parsed("workload", _workload)

    def write_workload(self, workload: Workload) -> None:
        """Record how the workload went."""
        self.write("workload", asdict(workload))

    def start_attempt(self) -> int:
        """Prepare the folder for the workload's next attempt, and return its number.

        Documents about an earlier attempt are removed. The workload's own files stay, so that it can resume from its
        checkpoints; but a run that already succeeded starts from scratch, and its files are moved aside.
        """
        earlier = self.read_workload()
        attempt = earlier.attempts + 1 if earlier else 1
        if earlier and earlier.status is JobStatus.SUCCESS:
            for file in self.files():
                target = self._inside(DOCUMENTS, f"attempt-{attempt - 1}", file.name)
                self._folder.move(self._inside(file.name), target)
        for document in ("metrics", "goodput", "verdicts", "gate"):
            self.remove(document)
        if self.root:
            self._folder.make(self._inside())
        else:
            storage.make_folder(self.path)
        return attempt

    def document_path(self, document: str) -> str:
        """Return the path of a document."""
        return storage.join(self.path, DOCUMENTS, f"{document}.json")

    def files(self, on_unreadable: Callable[[str], None] | None = None) -> list[storage.File]:
        """List the workload's files, within limits. `on_unreadable` is called with what is left out, and why."""
        return self._folder.files(self._inside(), on_unreadable, self.limits, skip=DOCUMENTS)

    @property
    def _folder(self) -> storage.Folder:
        return storage.Folder(self.root or self.path)

    def _inside(self, *names: str) -> str:
        """Return the name, in the trusted folder, of something in this one."""
        return "/".join((storage.relative(self.root, self.path), *names) if self.root else names)


def listing_limits(settings: Settings) -> storage.ListingLimits:
    """Return how much of a run folder is listed."""
    keys = ("listed_files", "listed_name_bytes", "listed_depth")
    texts = [getattr(settings, key) for key in keys]
    for key, text in zip(keys, texts, strict=True):
        if not (text.isascii() and text.isdigit() and 0 < int(text) < 1 << 40):
            raise ConfigError(f"[ml_metrics] {key}: should be a whole number above 0, not {text!r}")
    return storage.ListingLimits(*map(int, texts))


def _workload(content: dict[str, Any]) -> Workload:
    fields = {name: content[name] for name in Workload.__dataclass_fields__ if name in content}
    for name in ("queued_at", "started_at", "ended_at"):
        if fields.get(name):
            fields[name] = datetime.fromisoformat(fields[name])
    return Workload(**{**fields, "status": JobStatus(content["status"])})
