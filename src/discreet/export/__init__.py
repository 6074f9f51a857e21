"""Stage 6: a mapping becomes one bundle per sensor, for the device that reads it.

``neutral`` says what a device needs, ``body`` writes it in words that every runtime reads, and
``targets`` has one small file per language. The runtimes themselves are in ``runtimes/``.
"""
