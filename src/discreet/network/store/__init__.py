"""Where symbols and decisions are kept: one schema, in SQLite or PostgreSQL."""
