"""The best tables for a known distribution, by linear programs."""
