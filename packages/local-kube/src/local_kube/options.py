"""The server's options, as its command line and `ml-metrics cluster` take them."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from local_kube.quantities import amount
from local_kube.scheduling import Node

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How a server is run."""

    root: Path
    image_folder: Path
    node: Node = field(default_factory=Node)
    port: int = 0
    """0: the port of the server before, so that clients find this one; else any free one."""
    idle_seconds: float = 0
    """How long to live with no pod and no request; 0 for ever."""


def add_node_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the node offers."""
    parser.add_argument("--max-pods", type=int, default=110, metavar="N", help="pods that run at once (default: 110)")
    parser.add_argument("--cpu", type=quantity, metavar="CPUS", help="what pods may request (default: anything)")
    parser.add_argument("--memory", type=quantity, metavar="SIZE", help="likewise, for example 8Gi")
    parser.add_argument(
        "--resource", action="append", default=[], type=_pair, metavar="NAME=N", help="a device, like nvidia.com/gpu=1"
    )
    parser.add_argument(
        "--node-label", action="append", default=[], type=_pair, metavar="KEY=VALUE", help="for node selectors"
    )


def node_of(arguments: argparse.Namespace) -> Node:
    """The node that the arguments describe."""
    told = {"cpu": arguments.cpu, "memory": arguments.memory}
    resources = {name: value for name, value in told.items() if value is not None}
    resources |= {name: quantity(value) for name, value in arguments.resource}
    return Node(arguments.max_pods, resources, dict(arguments.node_label))


def node_words(node: Node) -> list[str]:
    """The arguments that describe a node."""
    words = ["--max-pods", str(node.max_pods)]
    words += [word for name, value in node.resources.items() for word in ("--resource", f"{name}={value}")]
    return words + [word for name, value in node.labels.items() for word in ("--node-label", f"{name}={value}")]


def quantity(text: str) -> float:
    """A quantity, with an error that argparse shows."""
    try:
        return amount(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=VALUE")
    return name, value
