"""Files that other programs write: one module for each format, and the registry of all of them."""
