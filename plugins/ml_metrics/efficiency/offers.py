"""What a run used of the price book: which chip, in which region, and how it was bought."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ml_metrics.config.clusters import cluster_of
from ml_metrics.config.efficiency import Purchase
from ml_metrics.efficiency.cost import UnknownCostError
from ml_metrics.efficiency.prices import Offer
from ml_metrics.errors import ConfigError

if TYPE_CHECKING:
    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.efficiency.prices import PriceBook

REGION = "topology.kubernetes.io/region"
ZONE = "topology.kubernetes.io/zone"
ZONE_OF_GOOGLE = re.compile(r"([a-z]+-[a-z]+[0-9]+)-[a-z]")
SPOT = ("cloud.google.com/gke-spot", "cloud.google.com/gke-preemptible")
"""The labels of nodes that can be taken away."""
RESERVATION = "cloud.google.com/reservation-name"


def offer_of(test: TestDefinition, book: PriceBook) -> Offer:
    """Return what the runs of a test use, by its `efficiency`, its node selector, its cluster, or the book's defaults.

    Raises:
        UnknownCostError: none of these states the region, or how the chips are bought.
    """
    region = test.efficiency.region or _region_of(test) or book.defaults.region
    purchase = test.efficiency.purchase or _purchase_of(test) or book.defaults.purchase
    if region is None:
        raise UnknownCostError(
            "its region is unknown: state `efficiency: {region: ...}`, or `defaults` of the price book"
        )
    if purchase is None:
        raise UnknownCostError(
            "it is unknown whether its chips are spot, on demand or reserved: state `efficiency: {purchase: ...}`, or "
            "`defaults` of the price book"
        )
    return Offer(test.accelerator.chip, region, purchase)


def _region_of(test: TestDefinition) -> str | None:
    if region := test.node_selector.get(REGION):
        return region
    if zone := test.node_selector.get(ZONE):
        return _without_zone(zone)
    try:
        cluster = cluster_of(test)
    except ConfigError:  # the run has a warning about it already, or it could not run
        return None
    return _without_zone(cluster.location) if cluster is not None and cluster.location else None


def _without_zone(place: str) -> str:
    """Return the region of a zone of Google Cloud; any other name as it is."""
    zone = ZONE_OF_GOOGLE.fullmatch(place)
    return zone[1] if zone else place


def _purchase_of(test: TestDefinition) -> Purchase | None:
    if any(test.node_selector.get(label) == "true" for label in SPOT):
        return Purchase.SPOT
    return Purchase.RESERVED if test.node_selector.get(RESERVATION) else None
