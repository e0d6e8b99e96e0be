"""Kinds of parallelism: what each has to measure, how it predicts a step, what fits.

base.py   what a strategy is: stages, space, predictor, memory check
job.py    what is tuned: a trainer's config in a world, with the limits of the search
table.py  the strategies by name
ddp/      data parallelism: a process for each rank
mesh/     a mesh of devices in one process
"""
