"""ZAYA1, a mixture-of-experts language model with compressed convolutional attention, in torch.

config.py      all settings of a run; presets
shapes.py      the model as numbers, without torch
memory.py      the memory that a run needs, without torch
model.py       the model
experts.py     the experts of a block, computed in one of three ways
loss.py        cross entropy, whole or in chunks of tokens
data.py        text, tokenizer, batches
step.py        optimizer, expert balancing, one training step
train.py       a run from start to end
checkpoint.py  the contents of a checkpoint
measure.py     its probes: the gradient timeline, a step, its memory
spec.py        what the trainer declares to the library
"""
