"""The command line: one file a noun, a thin client of the control API, and pure functions that put answers in words."""
