"""Curves through records. Each fit keeps its range, its errors on held-out points, its record ids.

link.py        time of a collective by message size: latency, bandwidth, knee
roofline.py    memory bandwidth by footprint, with the cache knees located
overlap.py     how much a collective and computation slow each other down
packing.py     how DDP packs gradients into buckets
step.py        a training step, simulated from its measured parts
gemm.py        time of a matrix product by shape, layout and data type
gemm_rules.py  rules of thumb for matrix products on this device
gaussian.py    the Gaussian process behind gemm.py
"""
