"""The made-up table of the package's own benchmarks, for the scripts here."""

from discreet.bench.tables import draw_large

__all__ = ["draw_large"]
