"""Worlds whose leak is known exactly, to try the audit's bounds on.

``rows`` has worlds of independent rows, ``homes`` those of rows in groups, ``releases`` those
in which many reports tell what one does not. Each draws rows and knows the ``Law`` that the
certificates speak of; ``trials`` counts how often they hold.
"""
