"""What a site hands to an officer: signed evidence, every line linked to what was measured."""
