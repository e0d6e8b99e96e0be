"""One loop for every trainer: measure, search, confirm by fresh runs, decide."""
