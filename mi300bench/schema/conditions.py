"""The names under which a record keeps the circumstances of a measurement. One list, so that readers agree; a test holds
every record against it."""

# Environment variables that change what a framework or a communication library does.
ENVIRONMENT_PREFIXES = (
    "GLOO_", "GPU_MAX", "HIP_", "HSA_", "KMP_", "MIOPEN_", "MKL_", "NCCL_", "OMP_", "ONEDNN_", "PYTORCH_", "RCCL_",
    "ROCBLAS_", "ROCR_", "TORCH_", "TORCHINDUCTOR_", "TP_", "XLA_",
)  # fmt: skip

NAMES = {
    "framework": "torch or jax",
    "framework_version": "its version, with the local build tag",
    "runtime": "ROCm or CUDA version, empty on a CPU",
    "blas": "the library behind matrix products",
    "backend": "the communication backend, empty for one rank",
    "device_arch": "gfx942, sm_90, or the CPU's instruction set in use",
    "compute_units": "CUs, SMs or cores of the device",
    "cache_bytes": "last-level cache",
    "flush_bytes": "bytes written before each cold sample",
    "threads": "threads of each rank",
    "affinity": "cores each rank may use",
    "hosts": "the hosts of the ranks",
    "launcher": "what started the ranks",
    "partition": "compute/memory partition mode of the GPU",
    "clock_hz": "engine clock: before, during and after, joined by slashes",
    "power_w": "socket power, likewise",
    "temperature_c": "hottest sensor, likewise",
    "numa_balancing": "0 or 1",
    "governor": "the CPU's frequency governor",
    "load": "cores busy with other work just before",
    "python": "Python version",
    "mi300bench": "our version",
}
