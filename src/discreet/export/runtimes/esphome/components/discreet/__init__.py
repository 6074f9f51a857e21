"""ESPHome: send a sensor's symbols, never its readings. Written by ``discreet export``."""
