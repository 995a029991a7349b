"""The errors that this package raises on purpose.

The message states what is wrong, where (file, line, field) and what to do about it. The class states who can fix it.
"""

from __future__ import annotations

from collections.abc import Callable

from ml_metrics.core.text import printable


class MlMetricsError(Exception):
    """The base class of all errors of this package."""


class FailureLogged:
    """Go on after an error of any kind, with a record of what is lost: in work beside other work that it must not end.

    `log` is a method of a logger, where `exception` adds the traceback, or takes the record to where it is read.
    """

    def __init__(self, log: Callable[[str], object], effect: str) -> None:
        self.log, self.effect = log, effect

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, Exception):
            return False
        reason = str(error) if isinstance(error, MlMetricsError) else f"{type(error).__name__}: {error}"
        self.log(f"{self.effect}: {reason}")
        return True


class ConfigError(MlMetricsError):
    """A test file or a setting is invalid. Its author can fix it."""


class UnreadableInputError(MlMetricsError):
    """A file or folder given by a run or a user does not have the expected content."""


class LaterVersionError(UnreadableInputError):
    """A document was written by a later version of this package: it is neither absent nor damaged."""


class StorageError(MlMetricsError):
    """A file, folder or bucket could not be opened, listed or written."""


class FileMissingError(StorageError):
    """The file does not exist."""


class TooLargeError(StorageError):
    """The file has more bytes than may be read at once."""


class WarehouseError(MlMetricsError):
    """The warehouse cannot be reached, or its tables do not have the expected columns."""


class ClusterError(MlMetricsError):
    """The cluster that runs workloads cannot be reached or used."""


class AlertError(MlMetricsError):
    """A message could not be delivered."""


class NothingToAskError(MlMetricsError):
    """A question to a person is not due, or needs no answer any more. The message is the reason."""


class UndeliveredError(AlertError):
    """A channel did not accept a message.

    Args:
        reason: a text without secrets. It may quote the service, so it is made printable.
        transient: whether another try may succeed.
        retry_after: the pause in seconds that the channel requests.
        remaining: the recipients that were rejected if others were accepted; empty for all.
        unconfirmed: whether the channel has the whole message and did not answer, so that it may have accepted it.
    """

    def __init__(
        self,
        reason: str,
        *,
        transient: bool = False,
        retry_after: float = 0.0,
        remaining: tuple[str, ...] = (),
        unconfirmed: bool = False,
    ) -> None:
        super().__init__(printable(reason))
        self.transient = transient
        self.retry_after = retry_after
        self.remaining = remaining
        self.unconfirmed = unconfirmed
