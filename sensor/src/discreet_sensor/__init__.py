"""What a device of a discreet site runs: readings in, symbols out, on a fixed schedule.

Needs Python 3.9, paho-mqtt and ``cryptography``, and nothing of the package ``discreet``.
"""

__version__ = "0.1.0"
