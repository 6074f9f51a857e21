"""Attackers that learn from rows: a lower side of what leaks."""
