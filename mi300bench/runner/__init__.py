"""Running points: what is asked, in worker processes that may die, on a budget, resumable.

expand.py    axes and sweep files -> points
timing.py    warm-up, calibration, samples: the only place that times
stopping.py  when a point has enough samples
group.py     the ranks' agreement outside the timed window
rank.py      one rank measures one point
worker.py    the process of one rank, fed over a local socket
launch.py    starting the ranks and talking with them; a lost rank is named
session.py   passes, order, budget, resume, one record a point
"""
