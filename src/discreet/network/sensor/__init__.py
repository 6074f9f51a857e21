"""The sensor: readings in, symbols out, on a fixed schedule."""
