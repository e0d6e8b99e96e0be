"""Reading what other tools printed. Each module knows one tool: whether a text is its, and what rows are in it.

A reader never raises over its input: what it cannot read is a line in `Reading.skipped`, with why.
"""
