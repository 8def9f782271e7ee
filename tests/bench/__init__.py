"""Benchmarks: they print times, memory and ratios of one run; no test asserts a time."""
