"""Figures beside their targets, and whether they are met."""

from rich.table import Table


def verdict(good):
    return "PASS" if good else "MISSED"


def judge(console, name, rows):
    """Print rows of what, seen, target and whether it is met; return whether all are."""
    table, passed = Table(name, "seen", "target", ""), True
    for what, seen, target, good in rows:
        table.add_row(what, seen, target, verdict(good))
        passed &= good
    console.print(table)
    return passed
