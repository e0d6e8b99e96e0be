"""The probes. The catalog lists them without importing a framework.

catalog.py         the table of all probes
memory.py          memory patterns under torch
gemm.py            matrix products under torch
experts.py         products of rows with the matrices of their experts, under torch
collective.py      collectives under torch
overlap.py         an all-reduce beside matrix products, under torch
jax_compute.py     memory patterns and matrix products under JAX
jax_collective.py  collectives under JAX
"""
