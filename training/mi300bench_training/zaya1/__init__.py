"""ZAYA1, a mixture-of-experts language model with compressed convolutional attention, in torch.

config.py   everything a run is determined by, and the presets
shapes.py   the model as numbers, without torch
model.py    the model
data.py     text, tokenizer, batches
step.py     optimizer, expert balancing, one training step
train.py    the story of a run
measure.py  its probes: the gradient timeline and the step
"""
