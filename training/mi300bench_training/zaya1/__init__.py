"""ZAYA1, a mixture-of-experts language model with compressed convolutional attention, in torch.

config.py      everything that determines a run; presets
shapes.py      the model as numbers, without torch
memory.py      the bytes that a run needs, without torch
model.py       the model
data.py        text, tokenizer, batches
step.py        optimizer, expert balancing, one training step
train.py       a run from start to end
checkpoint.py  what a checkpoint holds
measure.py     its probes: the gradient timeline, a step, its memory
spec.py        what the library knows of this trainer
"""
