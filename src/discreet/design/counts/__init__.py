"""The design from counts: its cost grows with the sensors, rows are counted once."""
