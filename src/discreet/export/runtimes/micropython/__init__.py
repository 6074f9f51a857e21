"""For MicroPython boards."""
