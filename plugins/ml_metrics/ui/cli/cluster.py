"""Run pods as processes of this machine, behind a Kubernetes API.

  ml-metrics cluster start          start it in the background; it stops by
                                    itself after 15 minutes without an active
                                    pod or a request
  ml-metrics cluster run            run it in the foreground, until Ctrl-C
  ml-metrics cluster status         print whether it responds, and its address
  ml-metrics cluster stop           stop it and the pods that run in it
  ml-metrics cluster kubeconfig     start it if necessary, and print the path of
                                    its kubeconfig

Every Kubernetes client can use it, with the kubeconfig that it writes:

  export KUBECONFIG=$(ml-metrics cluster kubeconfig)
  kubectl get pods
  kubectl logs -f my-pod

A container is a process of this machine: no image is pulled, and commands must
be installed here. Where the kernel has Landlock, it reaches nothing of Airflow's
home but its own run folder. Its working folder holds links to everything in
--image-folder. See docs/install.md.
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
