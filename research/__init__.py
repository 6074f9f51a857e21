"""The paper's experiments, the methods it compares with, and benchmarks; not in the wheel."""
