"""Measurements: run all by `python -m benchmarks`. No test and no package imports this."""
