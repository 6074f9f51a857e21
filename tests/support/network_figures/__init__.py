"""The figures of the network, each at any size: full in research/benchmarks/."""
