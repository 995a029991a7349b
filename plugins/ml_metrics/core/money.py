"""Amounts of money: whole numbers of a currency's smallest unit, so that sums are exact."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    Part = TypeVar("Part", bound=Hashable)

_WITHOUT_DECIMALS = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF"
_WITH_THREE = "BHD IQD JOD KWD LYD OMR TND"
_WITH_TWO = """
    AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CNY COP CRC
    CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR JMD KES
    KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR
    NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT
    TOP TRY TTD TWD TZS UAH USD UYU UZS VES WST XCD YER ZAR ZMW
"""
CURRENCIES = {
    code: decimals
    for decimals, codes in ((0, _WITHOUT_DECIMALS), (2, _WITH_TWO), (3, _WITH_THREE))
    for code in codes.split()
}
"""The currencies of ISO 4217, with the digits after the point of each."""


def in_one(currency: str) -> int:
    return int("1" + "0" * CURRENCIES[currency])


def smallest_units(amount: Fraction, currency: str) -> int:
    """A half goes to the even one."""
    return round(amount * in_one(currency))


def as_number(units: int, currency: str) -> float:
    """The number that is stored and judged. `units_of` restores the amount exactly below 10**15 units."""
    return units / in_one(currency)


def units_of(number: float, currency: str) -> int:
    return round(Fraction(number) * in_one(currency))


def money(units: int, currency: str) -> str:
    """As people read it: `1,234.50 USD`."""
    decimals = CURRENCIES[currency]
    whole, rest = divmod(abs(units), 10**decimals)
    fraction = f".{rest:0{decimals}}" if decimals else ""
    return f"{'-' if units < 0 else ''}{whole:,}{fraction} {currency}"


def money_of(amounts: Mapping[str, int]) -> str:
    """As people read them: `12.00 EUR + 1,234.50 USD`; empty without any."""
    return " + ".join(money(units, currency) for currency, units in sorted(amounts.items()))


def texts_of(amounts: Mapping[str, int]) -> dict[str, str]:
    return {currency: text_of(units, currency) for currency, units in sorted(amounts.items())}


def text_of(units: int, currency: str) -> str:
    return money(units, currency).replace(",", "").split()[0]


def shared_out(total: int, weights: Mapping[Part, Fraction]) -> dict[Part, int]:
    """Share an amount in proportion to weights, to its smallest unit: the parts add up to the whole.

    Each part gets its quota without the fraction. What is left goes to the largest fractions, one unit each; of equal
    ones, to the first. Raises ValueError if a weight is negative, or if there is none above 0 to share by.
    """
    whole = sum(weights.values(), Fraction(0))
    if total == 0 and not whole:
        return dict.fromkeys(weights, 0)
    if whole <= 0 or any(weight < 0 for weight in weights.values()):
        raise ValueError("an amount is shared by weights from 0 up, of which at least one is above 0")
    quotas = {part: total * weight / whole for part, weight in weights.items()}
    parts = {part: quota.__floor__() for part, quota in quotas.items()}
    by_fraction = sorted(weights, key=lambda part: parts[part] - quotas[part])
    for part in by_fraction[: total - sum(parts.values())]:
        parts[part] += 1
    return parts
