"""Tables to codes: files read, columns checked, rows held out, readings encoded."""
