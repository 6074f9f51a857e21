"""Methods to compare with: central projections, randomised response, raw readings."""
