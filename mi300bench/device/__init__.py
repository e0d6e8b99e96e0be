"""One interface for CPU, CUDA and ROCm. Code above it does not depend on the device kind.

base.py        the interface: clock, cache flush, marks, memory, conditions
torch_cpu.py   the CPU under torch
torch_gpu.py   CUDA and ROCm under torch
jax_device.py  CPU, CUDA and ROCm under JAX
open.py        opens the device of a process
"""
