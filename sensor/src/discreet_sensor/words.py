"""Words that stand for readings, as home automation writes them; devices know them too."""

MISSING = frozenset(("", "unavailable", "unknown", "none", "null", "nan", "na", "n/a"))
ON = frozenset(("on", "true", "yes", "open", "occupied", "detected", "home"))
OFF = frozenset(("off", "false", "no", "closed", "clear", "not_home"))
