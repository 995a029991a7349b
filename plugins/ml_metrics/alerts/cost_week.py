"""The weekly message about the cost of the runs of seven days, by reason, and the change since the week before."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime, time, timedelta
from typing import TYPE_CHECKING

from ml_metrics.alerts.compose import compose_notice
from ml_metrics.alerts.digest import send_summary
from ml_metrics.alerts.message import Fact, MessageKind, Notice, page_of_test
from ml_metrics.alerts.settings import MailSettings
from ml_metrics.core.money import money, money_of
from ml_metrics.core.text import counted
from ml_metrics.core.units import readable
from ml_metrics.core.values import short_hash
from ml_metrics.measure.efficiency import Bill, RunCost, added_up, bill_of, bills_by, troubles_of, words_of

if TYPE_CHECKING:
    from ml_metrics.warehouse import Warehouse


WEEK = timedelta(days=7)


def send_cost_of_week(warehouse: Warehouse, mail: MailSettings, now: datetime) -> bool:
    """Send the cost of the seven days before today, if the setting `cost_emails` names a recipient."""
    if not mail.cost:
        return False
    until = datetime.combine(now.date(), time.min, now.tzinfo)
    since = until - WEEK
    runs, before = warehouse.costs.between(since, until), warehouse.costs.between(since - WEEK, since)
    notice = notice_of(runs, before, since, until, mail.dashboard_url)
    readers = short_hash(json.dumps([mail.deployment, *mail.cost]))
    key = f"cost-{until:%Y-%m-%d}-{readers}"
    send_summary(compose_notice(key, MessageKind.COST, notice, mail.cost, mail.sender), mail, warehouse)
    return True


def notice_of(
    runs: Sequence[RunCost], before: Sequence[RunCost], since: datetime, until: datetime, dashboard_url: str
) -> Notice:
    total, earlier = bill_of(runs), bill_of(before)
    last = until - timedelta(days=1)
    headline = f"{total.cost} for {_hours(total)} in the week to {last:%Y-%m-%d}"
    address = f"{dashboard_url}/cost?since={since:%Y-%m-%d}&until={last:%Y-%m-%d}"
    return Notice(
        headline=headline,
        sentences=tuple(_sentences(total, earlier)),
        items=tuple(_items(runs, total, dashboard_url)),
        buttons=(Fact("cost", "Open the week", address),),
    )


def _sentences(total: Bill, earlier: Bill) -> Iterator[str]:
    changes = []
    for currency in sorted({*total.amounts, *earlier.amounts}):
        change = total.amounts.get(currency, 0) - earlier.amounts.get(currency, 0)
        amount = money(abs(change), currency)
        changes.append(f"{'more' if change > 0 else 'less'} by {amount}" if change else "unchanged")
    changed = f" That is {', '.join(changes)}." if changes else ""
    before = f"{earlier.cost} for {_hours(earlier)}"
    yield f"{counted(total.runs, 'run')}; the week before: {before}.{changed}"
    for currency, percent in sorted(total.goodput.items()):
        yield f"Of the measured {currency}, {percent:.1f} % were spent on productive training."
    if total.unknown:
        runs = f"{counted(total.unknown, 'run')} {'has' if total.unknown == 1 else 'have'}"
        yield f"{runs} no cost because a price or times are missing: the sums are without it."


def _items(runs: Sequence[RunCost], total: Bill, dashboard_url: str) -> Iterator[Fact]:
    for one in troubles_of(runs):
        text = f"{one.cost} for {words_of(one.reason)} in {counted(one.runs, 'run')} ({one.owner})"
        yield Fact(f"trouble: {one.test}", text, page_of_test(dashboard_url, one.test))
    # all lines of owners add up to the total
    bills = bills_by(runs, lambda run: run.owner)
    owners = list(bills)[:10]
    for owner in owners:
        yield Fact(f"owner: {owner}", _spent(bills[owner]))
    if len(bills) > len(owners):
        others = bill_of(run for run in runs if run.owner not in owners)
        yield Fact(counted(len(bills) - len(owners), "more owner"), _spent(others))
    shown = list(total.reasons)[:10]
    for reason in shown:
        yield Fact(f"spent on: {words_of(reason)}", money_of(total.reasons[reason]))
    if len(total.reasons) > len(shown):
        rest = added_up(amounts for reason, amounts in total.reasons.items() if reason not in shown)
        yield Fact(f"spent on {len(total.reasons) - len(shown):,} more", money_of(rest))


def _spent(bill: Bill) -> str:
    return f"{bill.cost} for {_hours(bill)}, of it {bill.lost} not on productive training"


def _hours(bill: Bill) -> str:
    return f"{readable([bill.chip_hours])[0]} chip hours"
