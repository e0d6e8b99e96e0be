"""Opening the device of a process: a GPU or the CPU, under torch or JAX."""

import os

from mi300bench.device.base import AbstractDevice
from mi300bench.errors import NodeError

KINDS = ("cpu", "cuda", "rocm")


def open_torch_device(kind: str, *, threads: int = 0) -> AbstractDevice:
    """Return the device of `kind` under torch; raise `NodeError` if torch or it is missing."""
    try:
        import torch
    except ImportError as cause:
        raise NodeError(
            "torch is not installed, but this measurement needs it",
            hint="pip install 'mi300bench[torch]', or use an image that has torch",
        ) from cause
    if kind == "cpu":
        from mi300bench.device.torch_cpu import TorchCpu

        return TorchCpu(threads=threads)
    available = torch_device_kind()
    if available != kind:
        raise NodeError(
            f"--device {kind}: torch {torch.__version__} supports only {available!r} here",
            hint=f"use --device {available}, or install a torch build for {kind}",
        )
    from mi300bench.device.torch_gpu import TorchGpu

    return TorchGpu(int(os.environ.get("LOCAL_RANK", "0")))


def open_device(kind: str, *, framework: str, threads: int = 0) -> AbstractDevice:
    """Return the device of `kind` under a framework; raise `NodeError` if either is missing."""
    if framework == "torch":
        return open_torch_device(kind, threads=threads)
    try:
        import jax

        from mi300bench.device.jax_device import JaxDevice
    except ImportError as cause:
        raise NodeError(
            "JAX is not installed, but this measurement needs it",
            hint="pip install 'mi300bench[jax]'",
        ) from cause
    available = jax.default_backend()
    if (available == "cpu") != (kind == "cpu"):
        raise NodeError(
            f"--device {kind}: the default backend of JAX {jax.__version__} is {available!r} here",
            hint=f"install a jaxlib for {kind}, or set JAX_PLATFORMS={kind}",
        )
    return JaxDevice(kind)


def torch_device_kind() -> str:
    """Return ``rocm``, ``cuda`` or ``cpu``: the device kind that torch supports here."""
    import torch

    if not torch.cuda.is_available():
        return "cpu"
    return "rocm" if torch.version.hip else "cuda"
