"""``python -m discreet``, and the command ``discreet``."""

from discreet import stopping


def main() -> None:
    """Run the command line; signals are taken over before anything else is loaded."""
    stopping.take_over()
    from discreet.cli import main as run

    run()


if __name__ == "__main__":
    main()
