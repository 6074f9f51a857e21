"""A whole network on one machine, with made-up readings: what ``discreet demo`` runs."""
