"""The best tables that an estimated distribution allows, and how sure that is."""
