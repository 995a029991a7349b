"""Rows of Google Cloud's detailed billing export: the bill of each run, by the labels of its pods.

The rows are those of `gcp_billing_export_resource_v1_<ACCOUNT>`, as JSON lines, a JSON list, or CSV whose nested
columns are JSON. With cost allocation of GKE, the labels of pods are among the labels of a row.
"""

from __future__ import annotations

import csv
import io
import json
from collections import defaultdict
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ml_metrics.errors import UnreadableInputError
from ml_metrics.money import CURRENCIES, smallest_units

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

RUN_KEY = "ml-metrics/run-key"
"""The label of the pods of a run."""
OF_PODS = ("", "k8s-label/")
"""A possible prefix of the name of a pod's label in a row."""
MOST_DIGITS = 60
NEEDED = ("cost", "currency")


@dataclass(frozen=True, slots=True)
class Billed:
    """What was billed, credits deducted."""

    runs: dict[str, dict[str, int]] = field(default_factory=dict)
    """By run key and currency, in its smallest unit."""
    others: dict[str, int] = field(default_factory=dict)
    """By currency: of rows without the label of a run."""
    rows: int = 0


def read_billing(text: str, path: str) -> Billed:
    """Return the bill of each run in a file. Raises UnreadableInputError for a row that cannot be read."""
    runs: defaultdict[str, defaultdict[str, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    count = 0
    for line, row in _rows(text, path):
        count += 1
        where = f"{path}:{line}"
        currency = row.get("currency")
        if currency not in CURRENCIES:
            raise UnreadableInputError(f"{where}: currency: {currency!r} is not a currency of ISO 4217 like USD")
        amount = _number(row.get("cost"), f"{where}: cost")
        for credit in _list(row.get("credits"), f"{where}: credits"):
            amount += _number(credit.get("amount"), f"{where}: credits")
        runs[_run_of(_list(row.get("labels"), f"{where}: labels"))][currency] += amount
    units = {
        key: {currency: smallest_units(amount, currency) for currency, amount in amounts.items()}
        for key, amounts in runs.items()
    }
    return Billed({key: amounts for key, amounts in units.items() if key}, units.get("", {}), count)


def _rows(text: str, path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the rows with the line or, in a JSON list, the number of each."""
    start = text.lstrip()[:1]
    if start == "[":
        found = _parsed(text, f"{path}:1")
        yield from ((number, _object(row, f"{path}:{number}")) for number, row in enumerate(found, 1))
    elif start == "{":
        lines: Iterable[str] = text.split("\n")
        yield from (
            (number, _object(_parsed(line, f"{path}:{number}"), f"{path}:{number}"))
            for number, line in enumerate(lines, 1)
            if line.strip()
        )
    else:
        reader = csv.DictReader(io.StringIO(text, newline=""))
        missing = [name for name in NEEDED if name not in (reader.fieldnames or ())]
        if missing:
            raise UnreadableInputError(f"{path}:1: the rows of a billing export have columns {' and '.join(missing)}")
        yield from ((reader.line_num, row) for row in reader)


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise UnreadableInputError(f"{where}: is not JSON: {error}") from error


def _object(row: Any, where: str) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise UnreadableInputError(f"{where}: should be an object, a row of a billing export")
    return row


def _list(value: Any, where: str) -> list[dict[str, Any]]:
    """Return a repeated column, which a CSV file has as JSON."""
    found = _parsed(value, where) if isinstance(value, str) and value.strip() else value or []
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise UnreadableInputError(f"{where}: should be a list of objects")
    return found


def _number(value: Any, where: str) -> Fraction:
    try:
        number = Decimal(value) if isinstance(value, str | int | Decimal) and not isinstance(value, bool) else None
    except InvalidOperation:
        number = None
    if number is None or not number.is_finite() or abs(number.adjusted()) > MOST_DIGITS:
        raise UnreadableInputError(f"{where}: should be a number, not {value!r}")
    return Fraction(number)


def _run_of(labels: list[dict[str, Any]]) -> str:
    """Return the run key that the labels of a row name; empty if none does."""
    names = {f"{prefix}{RUN_KEY}" for prefix in OF_PODS}
    return next((str(label.get("value") or "") for label in labels if label.get("key") in names), "")
