"""One small file per language: the neutral form in, the files of an export out.

To add a target, write a module with ``files`` and list it in ``discreet.choices``.
"""
