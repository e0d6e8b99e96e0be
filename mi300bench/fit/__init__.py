"""Records in, curves out. Every fit keeps its range, its residuals on points held out, and its evidence.

link.py      time of a collective by size: latency, bandwidth, knee
roofline.py  bandwidth by footprint, cache knees found
overlap.py   how much a collective and computation slow each other
packing.py   how DDP packs gradients into buckets
step.py      a training step simulated from its measured parts
gemm.py      time of a product by shape; gaussian.py the process under it, thumb.py its rules of thumb
comparison.py  what changed between sides, which is the odd one, where a history has a step; sides.py records as sides
"""
