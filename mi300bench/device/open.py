"""Choosing the device of a process: the accelerator that is there, or the CPU."""

import os

from mi300bench.device.base import AbstractDevice
from mi300bench.errors import NodeError

KINDS = ("cpu", "cuda", "rocm")


def open_torch_device(kind: str, *, threads: int = 0) -> AbstractDevice:
    """Return the device of `kind` under torch; `NodeError` where torch or the device is missing."""
    try:
        import torch
    except ImportError as cause:
        raise NodeError(
            "torch is not installed, and this measurement needs it",
            hint="pip install 'mi300bench[torch]', or use an image that has torch",
        ) from cause
    if kind == "cpu":
        from mi300bench.device.torch_cpu import TorchCpu

        return TorchCpu(threads=threads)
    found = found_kind()
    if found != kind:
        raise NodeError(
            f"the device {kind!r} was asked for, and torch {torch.__version__} finds {found!r} here",
            hint=f"--device {found}, or a torch build for {kind}",
        )
    from mi300bench.device.torch_gpu import TorchGpu

    return TorchGpu(int(os.environ.get("LOCAL_RANK", "0")))


def open_device(kind: str, *, framework: str, threads: int = 0) -> AbstractDevice:
    """Return the device of `kind` under a framework; `NodeError` where either is missing."""
    if framework == "torch":
        return open_torch_device(kind, threads=threads)
    try:
        import jax

        from mi300bench.device.jax_device import JaxDevice
    except ImportError as cause:
        raise NodeError(
            "JAX is not installed, and this measurement needs it",
            hint="pip install 'mi300bench[jax]'",
        ) from cause
    found = jax.default_backend()
    if (found == "cpu") != (kind == "cpu"):
        raise NodeError(
            f"the device {kind!r} was asked for, and JAX {jax.__version__} finds {found!r} here",
            hint="a jaxlib for it",
        )
    return JaxDevice(kind)


def found_kind() -> str:
    """Return ``rocm``, ``cuda`` or ``cpu``: what torch finds in this process."""
    import torch

    if not torch.cuda.is_available():
        return "cpu"
    return "rocm" if torch.version.hip else "cuda"
