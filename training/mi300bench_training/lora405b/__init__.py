"""LoRA on Llama-3.1, up to 405B, in JAX: one program for one device and for a mesh.

config.py      everything that determines a run; presets
shapes.py      the model as numbers: parameters, products, FLOP, communication; no framework
attention.py   causal attention over documents, with a backward pass of its own
model.py       Llama 3.1 with adapters beside its frozen weights
adapters.py    adapters: drawn, counted, merged
sharding.py    which axis of which tensor lies on which axis of the mesh
data.py        text, tokens, packed rows
step.py        loss, optimizer, one training step
train.py       a run from start to end
checkpoint.py  what a checkpoint holds
multihost.py   several processes of one run
readings.py    what is read of the process in each step
measure.py     its probe: a step
spec.py        what the library knows of this trainer
plan.py        the step of any size compiled without weights: bytes, collectives, FLOP
"""
