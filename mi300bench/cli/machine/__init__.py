"""Commands that measure this machine.

node.py         a description of this machine
hbm.py          memory bandwidth
gemm_sweep.py   matrix products
collectives.py  collectives between ranks
overlap.py      an all-reduce and matrix products at the same time
scaling.py      the step of a trainer on several numbers of devices
sweep.py        sweeps: list, plan, run, again
"""
