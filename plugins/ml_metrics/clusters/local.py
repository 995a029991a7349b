"""The former place of the local cluster, which is now the package local-kube."""

raise ImportError("ml_metrics.clusters.local is now a package of its own: write `from local_kube import LocalCluster`")
