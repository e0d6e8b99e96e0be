"""Data parallelism: a process for each rank; buckets of gradients are reduced during backward.

strategy.py   the strategy: answers the questions of the tuning loop
stages.py     the points to measure, in stages
layouts.py    ways to split the global batch over ranks and micro-batches
buckets.py    the bucket caps to weigh
shapes.py     the cost of other model shapes, from the fit of matrix products
evidence.py   from records to fits
predictor.py  the predicted step of a candidate
memory.py     whether a candidate fits into memory
published.py  records from published figures, for a device that nobody measured
"""
