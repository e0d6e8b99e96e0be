"""LoRA on Llama-3.1, up to 405B, in JAX: one program for one device and for a mesh.

config.py      all settings of a run; presets
shapes.py      the model as numbers: parameters, products, FLOP, communication; without JAX
attention.py   causal attention over documents, with its own backward pass
model.py       Llama 3.1 with frozen weights and adapters
adapters.py    adapters: random start, merging
sharding.py    the mesh axis of each axis of each tensor
data.py        text, tokens, packed rows
step.py        loss, optimizer, one training step
train.py       a run from start to end
multihost.py   several processes of one run
readings.py    readings of the process in each step
measure.py     its probe: a step
spec.py        what the trainer declares to the library
files/         frozen weights, PEFT folders, checkpoints
compiled/      a step of any size, compiled without weights: bytes, collectives, FLOP
"""
