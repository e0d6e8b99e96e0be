"""The library functions behind the commands, for use from Python. A command calls one and prints.

measuring.py      sweeps, memory, collectives, overlap and reruns into a store; reading a store
products.py       matrix products: a grid, a list of shapes, or the products of a model
scaling.py        the step of a trainer on several numbers of devices
training.py       a run of a reference trainer
fitting.py        curves through records
comparing.py      nodes, runs and folders compared
linting.py        figures checked against physics and published peaks
planning.py       a training step of any size, compiled without its weights
jobs.py           a trainer tuned from measurements, from a store, or from published figures
autotuning.py     the whole job on this machine, with config and report as files
exporting.py      a tuned config for another framework
reporting.py      the report of a store
importing.py      logs of other tools into a store
"""
