"""Code that hides the installed package from Python. A folder on `sys.path` is left, as in a fork or on Composer."""

HIDE = """
import importlib.metadata, importlib_metadata
for finder in (importlib.metadata.MetadataPathFinder, importlib_metadata.MetadataPathFinder):
    def others(cls, *context, found=finder.find_distributions):
        return (one for one in found(*context) if one.metadata["Name"] != "airflow-provider-ml-metrics")
    finder.find_distributions = classmethod(others)
"""
"""Airflow reads entry points with the older of the two libraries on Python 3.11."""
