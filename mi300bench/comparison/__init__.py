"""Compare sides of records: what changed, by how much, how certain, and since when.

medians.py      the points of a side, as medians over processes
sides.py        records as sides; changes with their dates; ranks and pairs that stand out
read_sides.py   the records of a side, from ``node:NAME``, ``run:ID`` or a folder
points.py       two sides, point by point
probe_shift.py  two sides, each probe as a whole
outliers.py     several sides: the one that stands out
history.py      a step or a drift in the runs of one side
noise.py        the variance of a point, shared among the points of a probe
"""
