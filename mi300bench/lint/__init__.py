"""A linter of figures: what somebody states, held against physics, published peaks and its own arithmetic.

check.py      agreeing within a tolerance, naming the likely cause of a factor, making findings
transfer.py   size over time against bandwidth; bus bandwidth against the line rate
peaks.py      bandwidth, rates and utilisation against what a device can do
training.py   tokens, memory sums, state per parameter, what fits on how many devices
ratios.py     stated ratios and savings against the figures they come from
judge.py      which rules read which kind of claim
files.py      claim files: the three that ship, and a user's own
sources.py    records and tuned configs as claims
"""
