"""The made-up tables of the package's own benchmarks, for the scripts here."""

from discreet.bench.tables import draw_blocks, draw_large

__all__ = ["draw_blocks", "draw_large"]
