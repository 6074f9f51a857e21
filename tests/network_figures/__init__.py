"""The figures of the network, each at any size: small in the tests, full in benchmarks/."""
