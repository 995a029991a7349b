"""A zoo of noises and planted changes, the rules that judge it run by run, and their score."""
