"""Records in, curves out. Every fit keeps its range, its residuals on points held out, and its evidence.

link.py      time of a collective by size: latency, bandwidth, knee
roofline.py  bandwidth by footprint, cache knees found
overlap.py   how much a collective and computation slow each other
packing.py   how DDP packs gradients into buckets
step.py      a training step simulated from its measured parts
gemm.py      time of a product by shape; gaussian.py the process under it, thumb.py its rules of thumb
comparison.py  which points changed between two sides; medians.py a side, sides.py records as sides, noise.py their scatter
wholes.py    what a probe as a whole moved by
outliers.py  which one of a few alike stands out
history.py   a step or a drift in a side's runs
"""
