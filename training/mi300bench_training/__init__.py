"""The reference trainers. Each reads a config and returns a record; none knows the harness.

What they share is here. Each folder is one trainer, which imports nothing of another.

checkpoint.py       a folder per save, complete or absent, the last few kept
history.py          what each step measured, and the record made of it
ending.py           how a run ends
stopping.py         signals end a run between two steps
text.py             files, CPython's documentation, the held-out part, the cache
schedule.py         the learning rate over a run
adamw.py            AdamW's settings
torch_optimizer.py  AdamW under torch
torch_ranks.py      the ranks of a run under torch
"""
