"""The objects of the cluster: in memory, on disk, and the history of their changes."""
