"""The step compiled without its weights.

plan.py  what a device holds, receives and computes, by config
hlo.py   the collectives of a partitioned program
"""
