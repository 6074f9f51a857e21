"""How fast it is, beside others in one run, and kept so that versions can be compared."""
