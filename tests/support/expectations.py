"""Made-up figures of what to expect."""

from discreet.design.expected import Expected


def expected_figures(low, decided):
    """What to expect where answers are as good as this, and nothing leaks."""
    middle = low + 0.05
    return Expected(
        advantage=0.0,
        advantage_error=0.0,
        raw_advantage=0.1,
        epsilon=None,
        public_error=0.5,
        balanced_accuracy=middle,
        balanced_low=low,
        balanced_high=middle + 0.05,
        decided=decided,
        guessing_error=0.4,
        raw_error=0.1,
        raw_balanced_accuracy=0.9,
        folds=2,
        met=None,
    )
