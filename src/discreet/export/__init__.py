"""Stage 6: a mapping becomes one bundle per sensor, for the device that reads it.

``neutral`` is what a device needs, in words that every runtime reads; ``targets`` does the
job and has a section per language. The runtimes themselves are in ``runtimes/``.
"""
