"""What tests of several parts share; the benchmarks use some of it, at full size."""
