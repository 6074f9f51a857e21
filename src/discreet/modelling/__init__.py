"""A distribution estimated from labelled rows, and the mapper that designs on it."""
