"""The command `local-kube`, whose arguments other programs can offer as a command of their own."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from local_kube.cluster import LocalCluster
from local_kube.errors import ClusterError
from local_kube.kubeconfig import kubeconfig_path
from local_kube.options import (
    MOUNT_VARIABLE_PREFIX,
    ServerOptions,
    add_confinement_arguments,
    add_node_arguments,
    confinement_from,
    duration,
    node_from,
    port,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

DEFAULT_ROOT = "~/.local-kube"
ABOUT = """\
A Kubernetes API on loopback whose containers are processes of this machine.

  local-kube start          start it in the background; it stops by itself after
                            15 minutes without an active pod or a request
  local-kube run            run it in the foreground, until Ctrl-C
  local-kube status         print whether it responds, and its address
  local-kube stop           stop it and the pods that run in it
  local-kube kubeconfig     start it if necessary, and print the path of its
                            kubeconfig

Every Kubernetes client can use it:

  export KUBECONFIG=$(local-kube kubeconfig)
  kubectl get pods

A container is a process of this machine: no image is pulled, and commands must
be installed here. Where the kernel has Landlock, it reaches its own files, the
system and the image folder only; elsewhere it has your own rights."""
VERBS = ("start", "run", "status", "stop", "kubeconfig")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="local-kube", description=ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_arguments(parser, DEFAULT_ROOT)
    arguments = parser.parse_args(argv)
    try:
        return run(arguments, arguments.root or DEFAULT_ROOT)
    except ClusterError as error:
        print(f"local-kube: {error}", file=sys.stderr)
        return 2


def add_arguments(parser: argparse.ArgumentParser, default_root: str) -> None:
    """Declare the arguments. `default_root` appears in the help only."""
    parser.add_argument("verb", choices=VERBS, help="what to do")
    parser.add_argument("--root", help=f"folder for pods, logs and the kubeconfig (default: {default_root})")
    parser.add_argument("--image-folder", help="files of every image (default: the current folder)")
    parser.add_argument("--port", type=port, default=0, help="for run: the port (default: the previous one)")
    parser.add_argument("--idle-minutes", type=duration, help="stop after so long without pods or requests; 0: never")
    add_node_arguments(parser)
    add_confinement_arguments(parser)
    parser.add_argument("--kubeconfig-copy", metavar="FILE", help="for run: a copy that our group may read")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(arguments: argparse.Namespace, root: str, mount_variable_prefix: str = MOUNT_VARIABLE_PREFIX) -> int:
    """Run the verb with the given root and return the exit code; raise ClusterError if it fails."""
    node = node_from(arguments)
    if arguments.verb == "run":
        folders = (Path(root).expanduser().absolute(), Path(arguments.image_folder or Path.cwd()).absolute())
        idle_seconds = 60 * (arguments.idle_minutes or 0)
        copy = None if arguments.kubeconfig_copy is None else Path(arguments.kubeconfig_copy).absolute()
        options = ServerOptions(
            *folders, node, arguments.port, idle_seconds, mount_variable_prefix, confinement_from(arguments), copy
        )
        _serve(options, arguments)
        return 0
    idle = {} if arguments.idle_minutes is None else {"idle_seconds": 60 * arguments.idle_minutes}
    cluster = LocalCluster(
        root,
        arguments.image_folder,
        node=node,
        mount_variable_prefix=mount_variable_prefix,
        confinement=confinement_from(arguments),
        **idle,
    )
    match arguments.verb:
        case "start":
            _start(cluster, arguments)
        case "kubeconfig":
            kubeconfig = cluster.ensure_running()
            _print(arguments, {"kubeconfig": kubeconfig}, kubeconfig)
        case "stop":
            stopped = cluster.stop()
            document = {"root": cluster.status().root, "stopped": stopped}
            _print(arguments, document, "stopped" if stopped else "was not running")
        case _:
            return _print_status(cluster, arguments)
    return 0


def _start(cluster: LocalCluster, arguments: argparse.Namespace) -> None:
    already = cluster.status().running
    kubeconfig = cluster.ensure_running()
    document = {**dataclasses.asdict(cluster.status()), "started": not already}
    state = "already running, with the options that it was started with" if already else "running"
    _print(arguments, document, f"{state}; use it with\n  export KUBECONFIG={kubeconfig}")


def _print_status(cluster: LocalCluster, arguments: argparse.Namespace) -> int:
    status = cluster.status()
    text = f"not running; its state is in {status.root}"
    if status.running:
        rights = "confined" if status.confined else "not confined: they have your own rights"
        text = (
            f"running at {status.url} (process {status.pid}), images from {status.image_folder}\n"
            f"containers are {rights}\n"
            f"  export KUBECONFIG={status.kubeconfig}"
        )
    _print(arguments, dataclasses.asdict(status), text)
    return 0 if status.running else 1


def _serve(options: ServerOptions, arguments: argparse.Namespace) -> None:
    from local_kube.server import serve  # its imports take a while, and the other verbs do not need them

    kubeconfig = str(kubeconfig_path(options.root))
    if not arguments.json:
        print(f"  export KUBECONFIG={kubeconfig}", flush=True)
    document = {"root": str(options.root), "kubeconfig": kubeconfig, "pid": os.getpid()}
    serve(options, lambda: _print(arguments, document, "ready; Ctrl-C stops it"))


def _print(arguments: argparse.Namespace, document: dict[str, Any], text: str) -> None:
    print(json.dumps(document, indent=2) if arguments.json else text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
