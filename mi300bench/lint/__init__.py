"""Check stated figures against physics, published peaks and their own arithmetic.

claim.py     a claim: figures that somebody states
finding.py   what a rule says of a claim
judge.py     which rules read which kind of claim
check.py     whether two figures agree, the likely cause if not, and the finding
transfer.py  size over time against bandwidth; bus bandwidth against the line rate
peaks.py     bandwidth, rates and utilisation against what a device can do
training.py  tokens, memory sums, state per parameter, what fits on how many devices
ratios.py    stated ratios and savings against the figures that they come from
files.py     claim files: the three that ship, and a user's own
sources.py   records and tuned configs as claims
claims/      the three claim files that ship
"""
