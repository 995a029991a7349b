"""Loggers whose lines cannot be forged: a message may quote a name that another user has chosen."""

from __future__ import annotations

import logging

from ml_metrics.values import printable


def logger_of(module: str) -> logging.Logger:
    """Return the logger of a module. Each of its records is one line without control characters."""
    logger = logging.getLogger(module)
    logger.addFilter(_as_one_line)
    return logger


def warnings_only(library: str) -> None:
    """Keep a library from reporting each of its steps."""
    logging.getLogger(library).setLevel(logging.WARNING)


def _as_one_line(record: logging.LogRecord) -> bool:
    """Escape what would end the line of a record, or move the cursor of a terminal. A traceback stays as it is."""
    record.msg, record.args = printable(record.getMessage()), None
    return True
