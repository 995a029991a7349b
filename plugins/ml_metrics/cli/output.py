"""JSON documents, warnings and counts, as commands print them."""

import json
import sys
from typing import Any

from ml_metrics.cli.table import printable
from ml_metrics.run_folder import without_non_finite


def print_json(document: dict[str, Any] | list[Any]) -> None:
    """Print one JSON document on standard output, with null for NaN and the infinities."""
    json.dump(without_non_finite(document), sys.stdout, indent=2, allow_nan=False, default=str)
    sys.stdout.write("\n")


def warn(message: str) -> None:
    """Print a warning on standard error."""
    print(f"warning: {printable(message)}", file=sys.stderr)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 file`, `2 files`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
