"""Measuring the points of a plan in worker processes, within a budget. A crash costs one point.

session.py            measures a plan: passes, order, budget, resume, a record per point and pass
launch.py             starts the ranks of a world and exchanges messages with them
local_ranks.py        starts the ranks of this machine, as forks that share one import of torch
worker.py             the process of one rank, which receives points over a local socket
external_launcher.py  measures in the ranks that torchrun or srun started
rank.py               measures a point on one rank and makes its record
group.py              what the ranks of a point exchange, outside the timed window
timing.py             warm-up, calibration and samples of a probe
stopping.py           when a point has enough samples
"""
