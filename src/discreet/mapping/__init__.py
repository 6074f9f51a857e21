"""The artefact that is learned and shipped: tables, encoders, fusion rule, and its file."""
