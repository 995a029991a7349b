"""Run pods as processes of this machine, behind a Kubernetes API.

  start        in the background; it stops after 15 idle minutes
  run          in the foreground, until Ctrl-C
  status       print whether it responds, and its address
  stop         stop it and the pods that run in it
  kubeconfig   start it if necessary, and print the path of its kubeconfig

No image is pulled: commands must be installed here. A container's working folder holds links to everything in
--image-folder. Where the kernel has Landlock, the container reaches only some folders (docs/install.md).

examples:
  export KUBECONFIG=$(ml-metrics cluster kubeconfig)
  kubectl get pods
"""

from __future__ import annotations

from ml_metrics.airflow.clusters import local_cluster
from ml_metrics.core.settings import Settings
from ml_metrics.ui.cli.arguments import Arguments, Parser


def add_arguments(parser: Parser) -> None:
    local_cluster.add_arguments(parser, "setting local_cluster_root")


def run(arguments: Arguments) -> int:
    settings = Settings.load()
    return local_cluster.run(arguments, settings.local_cluster_root, local_cluster.Access.of(settings))
