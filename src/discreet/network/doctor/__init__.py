"""What may be wrong with a site, each with what to do about it."""
