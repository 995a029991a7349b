"""What a user writes: test files and metric configs, as strict models, and loading them from YAML, JSON and Jsonnet."""
