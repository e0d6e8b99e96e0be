"""The node and its devices, without a framework.

facts.py      published peaks and sizes of devices, from data/facts.toml
reference.py  published measurements of devices, from data/reference.toml
inventory.py  the node as sysfs, procfs and amd-smi describe it, and its doubts
xla_flags.py  XLA's GPU flags, and which of them the installed jaxlib knows
"""
