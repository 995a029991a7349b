"""Finds the candidate from which on a metric has another level, by noisy measurements of few of them."""
