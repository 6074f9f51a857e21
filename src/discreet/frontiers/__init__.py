"""The whole trade-off between what is answered and what leaks: points, knee, picture."""
