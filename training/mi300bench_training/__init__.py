"""The reference trainers.

Each reads a tuned config and tells what it measured; none knows the harness.
"""
