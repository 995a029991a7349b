"""The HTTP API: requests, discovery, tables, patches, selectors, authentication."""
