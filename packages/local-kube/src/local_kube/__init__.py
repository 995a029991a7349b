"""A Kubernetes pods API on loopback whose containers are processes of this machine.

`LocalCluster` starts it and says where its kubeconfig lies; any Kubernetes client does the rest. Importing this costs
nothing: the server's own imports happen in the server's own process.
"""

from local_kube.cluster import ClusterStatus, LocalCluster

__all__ = ["ClusterStatus", "LocalCluster"]
