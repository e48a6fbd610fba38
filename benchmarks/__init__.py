"""Benchmarks: us and our peers on the same work in one run, printed as ratios."""
