"""The one seam to CPU, CUDA and ROCm. Above it nothing asks which of them it runs on.

face.py        what a device is: clock, flush, marks, memory instrument, conditions
torch_cpu.py   the CPU under torch
torch_gpu.py   CUDA and ROCm under torch
jax_device.py  all of them under JAX
open.py        which one to use
"""
