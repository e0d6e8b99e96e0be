"""From a question to records: plans of points, and runs that measure them into the store.

settings.py        where records go, and how long and how often to measure
local_topology.py  the device of this machine, its ranks and its threads
plans.py           points and plans of the commands
sweep_file.py      plans from TOML files
measure.py         a plan into the store; runs that choose their points as they go
follow.py          a measuring command under an outside launcher
rerun.py           the plan that measures a stored record once more
gemm_study.py      the cost of matrix products within a budget
shape_search.py    the fastest shape of a grid, from a part of the grid
node.py            a description of this machine
"""
