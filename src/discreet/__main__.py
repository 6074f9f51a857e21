"""``python -m discreet``: the same as the command ``discreet``."""

from discreet.cli import main

if __name__ == "__main__":
    main()
