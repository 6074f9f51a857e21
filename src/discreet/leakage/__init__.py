"""How much outputs tell when their distribution is known: exact quantities and bounds."""
