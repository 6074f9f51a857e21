"""A site: the folder that holds everything one deployment runs from."""
