"""Event logs of homes to tables: what was seen when, by rounds."""
