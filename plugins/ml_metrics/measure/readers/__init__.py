"""A reader for each format, and the registry that recognises them."""
