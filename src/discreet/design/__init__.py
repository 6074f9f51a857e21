"""Design: coded rows and labels to tables (stage 3 of the way of the data)."""
