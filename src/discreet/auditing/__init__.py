"""Honest finite-sample bounds on what a randomised mapping lets out (stage 5)."""
