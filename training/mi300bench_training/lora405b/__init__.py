"""LoRA on Llama-3.1, up to 405B, in JAX: one program for one device and for a mesh.

config.py      everything that determines a run; presets
shapes.py      the model as numbers: parameters, adapters, products, FLOP, closed forms of communication; standard library only
attention.py   causal attention over documents, with a backward pass of its own
model.py       Llama 3.1 with adapters beside its frozen weights
adapters.py    adapters: drawn, counted, merged
sharding.py    which axis of which tensor lies on which axis of the mesh
step.py        loss, optimizer, one training step
plan.py        the step of any size compiled without weights: bytes, collectives, FLOP
"""
