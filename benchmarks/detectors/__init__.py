"""Rules that look for losses, side by side, on made-up and real series: `python -m benchmarks.detectors --help`."""
