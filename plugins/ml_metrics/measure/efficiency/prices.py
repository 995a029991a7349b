"""The price book: what an hour of a chip costs, where, how it was bought, and from which day to which.

It is a YAML file of the administrator, which the setting `price_book` names. Prices are never guessed: without a price
in the book, there is none.
"""

from __future__ import annotations

import csv
import io
import json
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Self

from pydantic import BeforeValidator, Field, PlainSerializer, PlainValidator, model_validator

from ml_metrics.config.accelerators import chips
from ml_metrics.config.definition import Purchase
from ml_metrics.config.settings_file import settings_file
from ml_metrics.config.strict import Strict
from ml_metrics.config.times import Day
from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.core.money import CURRENCIES, smallest_units
from ml_metrics.core.settings import Settings
from ml_metrics.core.text import did_you_mean
from ml_metrics.core.units import write_instead
from ml_metrics.core.values import END_OF_TIME, end_of_day, start_of_day

if TYPE_CHECKING:
    from collections.abc import Iterator


MOST_DIGITS = 15
"""A number with more digits is not read exactly: it is rejected, not rounded."""
HIGHEST_PRICE = 1_000_000


def _chip(value: Any) -> Any:
    if isinstance(value, str) and value not in chips():
        raise ValueError(f"{value!r} is not a chip; available: {', '.join(chips())}{did_you_mean(value, chips())}")
    return value


def _currency(value: Any) -> Any:
    if isinstance(value, str) and value not in CURRENCIES:
        raise ValueError(f"{value!r} is not a currency of ISO 4217 like USD{did_you_mean(value, CURRENCIES)}")
    return value


def _amount(value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise ValueError(f"should be a number like 4.20, not {value!r}{write_instead(value)}")  # noqa: TRY004  (pydantic wants it)
    amount = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if not amount.is_finite() or not 0 < amount <= HIGHEST_PRICE:
        raise ValueError(f"should be above 0 and at most {HIGHEST_PRICE:,}, not {value!r}")
    if len(amount.normalize().as_tuple().digits) > MOST_DIGITS:
        raise ValueError(f"should have at most {MOST_DIGITS} digits, not {value!r}")
    return amount


Text = Annotated[str, Field(min_length=1)]
Chip = Annotated[str, BeforeValidator(_chip)]
Currency = Annotated[str, BeforeValidator(_currency)]
Amount = Annotated[Decimal, PlainValidator(_amount), PlainSerializer(str)]


class Offer(NamedTuple):
    """What is paid for: a chip, somewhere, bought in some way."""

    chip: str
    region: str
    purchase: Purchase

    def __str__(self) -> str:
        return f"{self.chip}, {self.purchase.replace('_', ' ')}, in {self.region}"


class Price(Strict):
    """The price of an hour of one chip, from a day to a day, both included, in UTC."""

    accelerator: Chip
    """The chip: `h100`, `v5e`; `cpu` is a host without accelerators."""
    region: Text
    """The region, as in the test file or the cluster: `us-central1`."""
    purchase: Purchase
    """`spot`, `on_demand` or `reserved`."""
    currency: Currency
    """A code of ISO 4217: `USD`."""
    per_chip_hour: Amount
    """The price of one chip for an hour."""
    first: Day = Field(validation_alias="from")
    """The first day of this price."""
    last: Day | None = Field(None, validation_alias="to")
    """The last day of this price. Default: it holds until further notice."""
    queue_is_billed: bool = False
    """Whether the time before the start of a workload is paid for as well: reserved chips may be kept for it."""

    @model_validator(mode="after")
    def possible(self) -> Self:
        if self.last is not None and self.last < self.first:
            raise ValueError(f"`to` is {self.last}, before `from`, {self.first}")
        if self.queue_is_billed and self.purchase is not Purchase.RESERVED:
            raise ValueError("`queue_is_billed` is for `purchase: reserved` only: nothing else is held in a queue")
        return self

    @property
    def offer(self) -> Offer:
        return Offer(self.accelerator, self.region, self.purchase)

    @property
    def start(self) -> datetime:
        return start_of_day(self.first)

    @property
    def end(self) -> datetime:
        return END_OF_TIME if self.last is None else end_of_day(self.last)


class Defaults(Strict):
    """What counts for a run of which neither the test file nor its node selector states it."""

    region: Text | None = None
    """The region."""
    purchase: Purchase | None = None
    """How its chips were bought."""


class PriceSpan(NamedTuple):
    """A time in which one price holds."""

    start: datetime
    end: datetime
    price: Price


class NoPriceError(Exception):
    """The book has no price for some of the time."""


class PriceBook(Strict):
    """The file of the setting `price_book`."""

    title: Text
    """The title of the book, which is stored and shown with each cost: `list prices of 2026`."""
    defaults: Defaults = Defaults()
    """What counts for runs that state no region or purchase."""
    prices: tuple[Price, ...] = Field(min_length=1)
    """The prices, in any order."""

    @model_validator(mode="after")
    def one_price_at_a_time(self) -> Self:
        numbered = defaultdict(list)
        for number, price in enumerate(self.prices):
            numbered[price.offer].append((price.start, number, price))
        for offer, each in numbered.items():
            for (_, first, before), (_, second, after) in pairwise(sorted(each)):
                if after.start < before.end:
                    raise ValueError(
                        f"prices[{first}] and prices[{second}] are both for {offer}, on {after.first}: let one end "
                        "with `to` before the other begins"
                    )
        return self

    def between(self, offer: Offer, start: datetime, end: datetime) -> list[PriceSpan]:
        """One after the other. Raises NoPriceError if it has none for the offer, or only for a part of the time."""
        if end <= start:
            return []
        own = sorted((price for price in self.prices if price.offer == offer), key=lambda price: price.start)
        if not own:
            raise NoPriceError(f"the price book {self.title!r} has no price for {offer}")
        found = [
            PriceSpan(max(start, price.start), min(end, price.end), price)
            for price in own
            if price.start < end and price.end > start
        ]
        reached = start
        for span in found:
            if span.start > reached:
                break
            reached = span.end
        if reached < end:
            raise NoPriceError(f"the price book {self.title!r} has no price for {offer}, on {reached:%Y-%m-%d}")
        return found

    def at(self, offer: Offer, moment: datetime) -> PriceSpan:
        """Raises NoPriceError if the book has none."""
        (one,) = self.between(offer, moment, moment + timedelta(microseconds=1))
        return PriceSpan(moment, moment, one.price)

    @property
    def currencies(self) -> tuple[str, ...]:
        return tuple(sorted({price.currency for price in self.prices}))


def configured_book() -> PriceBook | None:
    """Return the price book of the settings; None without one. Raises InvalidFileError if it cannot be used."""
    settings = Settings.load()
    if not settings.price_book:
        return None
    return settings_file(settings.price_book, PriceBook, "the price book", settings.config_root)


OF_RUNS = {"ml-metrics/run-key", "k8s-label/ml-metrics/run-key"}
"""The label of the pods of a run, as a row has it."""


@dataclass(frozen=True, slots=True)
class Billed:
    """What was billed, credits deducted."""

    runs: dict[str, dict[str, int]] = field(default_factory=dict)
    """By run key and currency, in its smallest unit."""
    others: dict[str, int] = field(default_factory=dict)
    """By currency: of rows without the label of a run."""
    rows: int = 0


def read_billing(text: str, path: str) -> Billed:
    """Raises UnreadableInputError for a row that cannot be read."""
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
        labels = _list(row.get("labels"), f"{where}: labels")
        own = (label.get("value") for label in labels if label.get("key") in OF_RUNS)
        runs[str(next(own, "") or "")][currency] += amount
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
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                yield number, _object(_parsed(line, f"{path}:{number}"), f"{path}:{number}")
    else:
        reader = csv.DictReader(io.StringIO(text, newline=""))
        missing = [name for name in ("cost", "currency") if name not in (reader.fieldnames or ())]
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
    if number is None or not number.is_finite() or abs(number.adjusted()) > 60:
        raise UnreadableInputError(f"{where}: should be a number, not {value!r}")
    return Fraction(number)
