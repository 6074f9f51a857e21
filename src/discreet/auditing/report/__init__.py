"""The audit as a page to read, sign and print."""
