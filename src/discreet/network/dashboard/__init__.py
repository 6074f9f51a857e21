"""The dashboard: one site's decisions, sensors and guarantee, behind a login.

It reads what the fusion centre has stored and the files of the site, and changes neither.
"""
