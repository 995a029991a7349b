"""What every command prints in the same way."""

import json
import sys
from typing import Any

from ml_metrics.run_folder import without_non_finite


def print_json(document: dict[str, Any] | list[Any]) -> None:
    """One JSON document on standard output, with null for what is no number."""
    json.dump(without_non_finite(document), sys.stdout, indent=2, allow_nan=False, default=str)
    sys.stdout.write("\n")


def warn(message: str) -> None:
    """A warning, which is not part of the answer."""
    print(f"warning: {message}", file=sys.stderr)
