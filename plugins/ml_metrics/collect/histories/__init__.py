"""Histories of other programs: the runs that they recorded, for `ml-metrics import`."""
