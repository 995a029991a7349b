"""Test files and metric configs: strict models, and loading them from YAML, JSON and Jsonnet."""
