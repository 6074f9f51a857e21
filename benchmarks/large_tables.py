"""The made-up table of the package's own benchmarks, for the scripts here."""

import numpy as np

from discreet.bench.tables import draw_large

__all__ = ["draw_blocks", "draw_large"]


def draw_blocks(n_rows: int, n_sensors: int, n_codes: int = 16, block: int = 1 << 18):
    """Yield the same kind of rows block by block, for tables that do not fit in memory."""
    shares = np.random.default_rng(0).normal(size=(6, n_sensors)).astype(np.float32)
    shares *= np.array([0.35, 0.35, 0.6, 0.6, 0.6, 0.6], dtype=np.float32)[:, None]
    for k, begin in enumerate(range(0, n_rows, block)):
        rng, n = np.random.default_rng([1, k]), min(block, n_rows - begin)
        public, private = rng.integers(2, size=(2, n))
        causes = rng.standard_normal((n, 6), dtype=np.float32)
        causes[:, 0], causes[:, 1] = 2 * public - 1, 2 * private - 1
        readings = causes @ shares + rng.standard_normal((n, n_sensors), dtype=np.float32)
        codes = np.floor(n_codes / 2 + readings * np.float32(n_codes / 5))
        yield np.clip(codes, 0, n_codes - 1).astype(np.int64), public, private
