"""The one family of errors that this package raises on purpose.

A message says what is wrong, where (file, line, field) and what to do about it; the class says whose turn it is.
"""


class MlMetricsError(Exception):
    """Anything that went wrong in a way we foresaw. Catch this one to catch them all."""


class ConfigError(MlMetricsError):
    """A test file or a setting says something that cannot be meant. Its author can mend it."""


class UnreadableInputError(MlMetricsError):
    """A file or folder that a run or a person handed us cannot be read as what it should be."""


class StorageError(MlMetricsError):
    """A file, folder or bucket could not be opened, listed or written."""


class WarehouseError(MlMetricsError):
    """The warehouse cannot be reached, or its tables are not what they should be."""


class ClusterError(MlMetricsError):
    """The cluster that runs workloads cannot be reached or used."""


class AlertError(MlMetricsError):
    """A message could not be delivered."""
