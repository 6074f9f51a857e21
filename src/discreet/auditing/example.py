"""One report as an example for pictures: what a sensor may read, draws from, and sends.

It comes from the tables alone. An audit is shown around, so that no reading of the audited rows may
be in it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from discreet.data.encoders import CategoriesEncoder, Encoder
from discreet.mapping.mapping import Mapping

_SHOWN = 4  # sensors


def example_report(mapping: Mapping) -> list[dict[str, Any]]:
    """Return a code of each of the first sensors, the row of its table, and a symbol of it.

    Both are drawn, and are the same each time.
    """
    rng = np.random.default_rng(0)
    found = []
    for sensor, table in list(zip(mapping.sensors, mapping.tables, strict=True))[:_SHOWN]:
        code = int(rng.integers(_plain_codes(sensor.encoder)))
        found.append(
            {
                "sensor": sensor.name,
                "reading": sensor.encoder.labels()[code],
                "row": table[code].tolist(),
                "symbol": int(rng.choice(table.shape[1], p=table[code])),
            }
        )
    return found


def _plain_codes(encoder: Encoder) -> int:
    """Return how many codes stand for a reading that is there and known."""
    return max(encoder.n_codes - encoder.missing - isinstance(encoder, CategoriesEncoder), 1)
