"""A Kubernetes API on loopback whose containers are processes of this machine.

`LocalCluster` starts it and returns the path of its kubeconfig, with which every Kubernetes client can use it.
Importing this package is cheap: the server's dependencies are imported in the server's own process.
"""

from local_kube.cluster import ClusterStatus, LocalCluster
from local_kube.errors import ClusterError
from local_kube.node import Node

__all__ = ["ClusterError", "ClusterStatus", "LocalCluster", "Node"]
