"""The public estimators: every one learns a mapping from rows."""
