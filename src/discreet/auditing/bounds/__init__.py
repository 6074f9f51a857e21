"""Bounds on what leaks, for any attacker, from rows and tables."""
