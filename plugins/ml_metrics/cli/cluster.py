"""`ml-metrics cluster`: pods as processes of this machine."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from local_kube import LocalCluster
from local_kube.options import ServerOptions, add_node_arguments, node_of
from ml_metrics.cli.output import print_json
from ml_metrics.settings import Settings

if TYPE_CHECKING:
    import argparse

ABOUT = """\
Run pods as processes of this machine, behind the Kubernetes API that clients of pods know.

  ml-metrics cluster start          start it in the background; it ends by itself after 15 quiet minutes
  ml-metrics cluster run            the same in the foreground, until Ctrl-C
  ml-metrics cluster status         whether it answers, and where
  ml-metrics cluster stop           end it, and the pods that run in it

Every Kubernetes client can use it, with the kubeconfig that it writes:

  export KUBECONFIG=$(ml-metrics cluster kubeconfig)
  kubectl get pods
  kubectl logs -f my-pod

A container is a process with your own rights: nothing is isolated, images are not pulled, and commands are found on
this machine. Its working folder holds links to everything in --image-folder. docs/local-cluster.md tells the rest."""

VERBS = ("start", "run", "status", "stop", "kubeconfig")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("verb", choices=VERBS, help="what to do")
    parser.add_argument("--root", help="where pods, logs and the kubeconfig are kept (default: the settings' folder)")
    parser.add_argument("--image-folder", help="what every image is taken to hold (default: the folder you are in)")
    parser.add_argument("--port", type=int, default=0, help="with run: the port on 127.0.0.1 (default: the last one)")
    parser.add_argument("--idle-minutes", type=float, help="end after so long without a pod or a request; 0: never")
    add_node_arguments(parser)
    parser.add_argument("--json", action="store_true", help="with status: one JSON document")


def run(arguments: argparse.Namespace) -> int:
    """Answer, and return the exit code."""
    root = arguments.root or Settings.load().local_cluster_root
    idle = {} if arguments.idle_minutes is None else {"idle_seconds": 60 * arguments.idle_minutes}
    cluster = LocalCluster(root, arguments.image_folder, node=node_of(arguments), **idle)
    match arguments.verb:
        case "start":
            already = " already, with the options that it was started with" if cluster.status().running else ""
            print(f"running{already}; use it with\n  export KUBECONFIG={cluster.ensure_running()}")
        case "kubeconfig":
            print(cluster.ensure_running())
        case "stop":
            print("stopped" if cluster.stop() else "was not running")
        case "run":
            _run_here(root, arguments)
        case _:
            return _tell_status(cluster, as_json=arguments.json)
    return 0


def _run_here(root: str, arguments: argparse.Namespace) -> None:
    from local_kube.kubeconfig import kubeconfig_path
    from local_kube.server import serve

    image_folder = Path(arguments.image_folder or Path.cwd()).absolute()
    idle = 60 * (arguments.idle_minutes or 0)
    place = Path(root).expanduser().absolute()
    print(f"  export KUBECONFIG={kubeconfig_path(place)}", flush=True)
    options = ServerOptions(place, image_folder, node_of(arguments), arguments.port, idle)
    serve(options, lambda: print("ready; Ctrl-C ends it", flush=True))


def _tell_status(cluster: LocalCluster, *, as_json: bool) -> int:
    status = cluster.status()
    if as_json:
        print_json(dataclasses.asdict(status))
    elif status.running:
        print(f"running at {status.url} (process {status.pid}), images from {status.image_folder}")
        print(f"  export KUBECONFIG={status.kubeconfig}")
    else:
        print(f"not running; its state lies in {status.root}")
    return 0 if status.running else 1
