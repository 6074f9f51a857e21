"""The best tables that a known distribution allows, with a word on how sure that is."""
