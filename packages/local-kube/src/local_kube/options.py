"""The options of a server, and the command-line arguments for them."""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass, field
from pathlib import Path

from local_kube.formats import parse_quantity
from local_kube.node import DEFAULT_MAX_PODS, Node
from local_kube.pods.confinement import MODES, Confinement

MOUNT_VARIABLE_PREFIX = "LOCAL_KUBE_MOUNT_"
MAX_PORT = 65535
MAX_DIGITS = 9
"""Python refuses to convert very long numbers, with an error that argparse does not explain."""


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How a server runs."""

    root: Path
    """The folder for pods, logs and the kubeconfig."""
    image_folder: Path
    """The folder whose entries appear in the working folder of every container."""
    node: Node = field(default_factory=Node)
    port: int = 0
    """0: the port of the previous server, so that clients find this one; else any free one."""
    idle_seconds: float = 0
    """How long to run without an active pod or a request; 0: forever."""
    mount_variable_prefix: str = MOUNT_VARIABLE_PREFIX
    """The prefix of the variables in which containers find the real paths of their volumes."""
    confinement: Confinement = field(default_factory=Confinement)
    """Which files containers may reach."""
    kubeconfig_copy: Path | None = None
    """Where a copy of the kubeconfig is written, for clients that are other users of the same group."""


def add_confinement_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments for what containers may reach."""
    parser.add_argument(
        "--confine", choices=MODES, help="confine containers with Landlock (default: if the kernel can)"
    )
    parser.add_argument(
        "--share", action="append", default=[], metavar="FOLDER", type=_path, help="containers may use it; repeatable"
    )
    parser.add_argument(
        "--hide", action="append", default=[], metavar="FOLDER", type=_path, help="no container may read it; repeatable"
    )
    parser.add_argument("--folder-annotation", default=Confinement().folder_annotation, help=argparse.SUPPRESS)


def confinement_from(arguments: argparse.Namespace) -> Confinement:
    """Return the confinement that the arguments describe."""
    hidden, shared = tuple(arguments.hide), tuple(arguments.share)
    return Confinement(arguments.confine or "auto", hidden, shared, arguments.folder_annotation)


def confinement_arguments(confinement: Confinement) -> list[str]:
    """Return the arguments that describe a confinement."""
    folders = [("--hide", str(path)) for path in confinement.hidden]
    folders += [("--share", str(path)) for path in confinement.shared]
    named = [f"--confine={confinement.mode}", f"--folder-annotation={confinement.folder_annotation}"]
    return [*named, *(f"{name}={path}" for name, path in folders)]


def add_node_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments for what the node offers."""
    parser.add_argument(
        "--max-pods", type=_pod_count, default=DEFAULT_MAX_PODS, metavar="N", help="pods at once (default: %(default)s)"
    )
    parser.add_argument("--cpu", type=_quantity, metavar="CPUS", help="CPUs that pods can request (default: unlimited)")
    parser.add_argument("--memory", type=_quantity, metavar="SIZE", help="likewise, for example 8Gi")
    parser.add_argument(
        "--resource", action="append", default=[], type=_resource, metavar="NAME=N", help="a device: nvidia.com/gpu=1"
    )
    parser.add_argument(
        "--node-label", action="append", default=[], type=_pair, metavar="KEY=VALUE", help="for node selectors"
    )


def node_from(arguments: argparse.Namespace) -> Node:
    """Return the node that the arguments describe."""
    limits = {"cpu": arguments.cpu, "memory": arguments.memory}
    resources = {name: value for name, value in limits.items() if value is not None}
    return Node(arguments.max_pods, {**resources, **dict(arguments.resource)}, dict(arguments.node_label))


def node_arguments(node: Node) -> list[str]:
    """Return the arguments that describe a node."""
    resources = [("--resource", f"{name}={value}") for name, value in node.resources.items()]
    labels = [("--node-label", f"{name}={value}") for name, value in node.labels.items()]
    return ["--max-pods", str(node.max_pods), *(text for pair in [*resources, *labels] for text in pair)]


def port(text: str) -> int:
    """Parse a port."""
    if not text.isascii() or not text.isdecimal() or len(text) > MAX_DIGITS or int(text) > MAX_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: a number from 0 to {MAX_PORT}")
    return int(text)


def duration(text: str) -> float:
    """Parse a number of minutes or seconds."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration: a number of 0 or more")
    return number


def _path(text: str) -> Path:
    return Path(text).expanduser().absolute()


def _pod_count(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > MAX_DIGITS or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of pods: a whole number of 1 or more")
    return int(text)


def _quantity(text: str) -> float:
    try:
        number = parse_quantity(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is negative")
    return number


def _resource(text: str) -> tuple[str, float]:
    name, value = _pair(text)
    return name, _quantity(value)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=VALUE")
    return name, value
