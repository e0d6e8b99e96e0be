"""Two network namespaces with a link of known rate and delay: ground truth for the probes.

Without a delay: a veth pair, each end shaped by a token bucket. With one: two TUN devices joined by
a relay in user space, which holds every packet for its length over the rate, plus the delay. Needs
root and iproute2; everything is named after this process and removed at the end.
"""

import ctypes
import fcntl
import heapq
import multiprocessing
import os
import select
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

CLONE_NEWNET = 0x40000000
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
TUN_MTU = 60_000
BURST_BYTES = 256 * 1024
PREFIX = "10.77.0."


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Two namespaces, `interface` in each; rate in bit/s, one-way delay in seconds, as planted."""

    namespaces: tuple[str, str]
    interface: str
    rate_bits: float
    delay_s: float

    @property
    def says(self) -> str:
        """Return what is emulated, for the records."""
        delay = f" with {self.delay_s * 1e3:g} ms one-way delay" if self.delay_s else ""
        return f"two network namespaces, {self.rate_bits / 1e9:g} gbit/s{delay}"

    @property
    def goodput(self) -> float:
        """Return the payload bytes per second that TCP can reach on this link."""
        payload, frame = (TUN_MTU - 52, TUN_MTU) if self.delay_s else (1448, 1514)
        return self.rate_bits / 8 * payload / frame

    @property
    def launcher(self) -> str:
        """Return the command that starts a worker's ranks, one in each namespace."""
        import sys

        places = " ".join(self.namespaces)
        return f"{sys.executable} -m tests.cluster.launch {self.interface} {places} --"


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


@contextmanager
def cluster(
    *, rate_bits: float, delay_s: float = 0.0, has_relay: bool | None = None
) -> Iterator[Cluster]:
    """Give a cluster.

    `has_relay` forces the user-space link where there is no delay, to compare like with like.
    """
    names = (f"mb{os.getpid()}a", f"mb{os.getpid()}b")
    uses_relay = delay_s > 0 if has_relay is None else has_relay
    relay: multiprocessing.Process | None = None
    try:
        for name in names:
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
        if uses_relay:
            tuns = [_open_tun(name) for name in names]
            relay = multiprocessing.get_context("fork").Process(
                target=_relay, args=(tuns, rate_bits / 8, delay_s), daemon=True
            )
            relay.start()
            for fd in tuns:
                os.close(fd)
        else:
            _ip(
                "link",
                "add",
                "mb0",
                "netns",
                names[0],
                "type",
                "veth",
                "peer",
                "name",
                "mb0",
                "netns",
                names[1],
            )
        for index, name in enumerate(names):
            _ip("-n", name, "address", "add", f"{PREFIX}{index + 1}/24", "dev", "mb0")
            if uses_relay:
                _ip("-n", name, "link", "set", "mb0", "mtu", str(TUN_MTU))
            _ip("-n", name, "link", "set", "mb0", "up")
            if not uses_relay:
                shaping = f"tbf rate {int(rate_bits)}bit burst {BURST_BYTES} latency 100ms"
                subprocess.run(
                    ["tc", "-n", name, "qdisc", "add", "dev", "mb0", "root", *shaping.split()],
                    check=True,
                )
        yield Cluster(namespaces=names, interface="mb0", rate_bits=rate_bits, delay_s=delay_s)
    finally:
        if relay is not None:
            relay.terminate()
            relay.join()
        for name in names:
            if Path(f"/var/run/netns/{name}").exists():
                subprocess.run(["ip", "netns", "delete", name], check=False)


def _open_tun(namespace: str) -> int:
    """Return a TUN device called mb0 that lives in `namespace`, opened from here."""
    libc = ctypes.CDLL(None, use_errno=True)
    with (
        Path("/proc/self/ns/net").open("rb") as home,
        Path(f"/var/run/netns/{namespace}").open("rb") as there,
    ):
        if libc.setns(there.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"cannot enter the namespace {namespace}")
        try:
            fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH", b"mb0", IFF_TUN | IFF_NO_PI))
        finally:
            libc.setns(home.fileno(), CLONE_NEWNET)
    return fd


def _relay(tuns: list[int], bytes_per_second: float, delay_s: float) -> None:
    """Carry packets both ways, each after its length over the rate and the delay, in order."""
    free_at = [0.0, 0.0]
    waiting: list[tuple[float, int, int, bytes]] = []
    count = 0
    while True:
        patience = max(0.0, waiting[0][0] - time.monotonic()) if waiting else 1.0
        readable, _, _ = select.select(tuns, [], [], patience)
        for fd in readable:
            side = tuns.index(fd)
            with suppress(BlockingIOError, OSError):
                for _ in range(16):
                    packet = os.read(fd, 65_536)
                    free_at[side] = (
                        max(time.monotonic(), free_at[side]) + len(packet) / bytes_per_second
                    )
                    count += 1
                    heapq.heappush(waiting, (free_at[side] + delay_s, count, 1 - side, packet))
        while waiting and waiting[0][0] <= time.monotonic():
            _, _, side, packet = heapq.heappop(waiting)
            with suppress(OSError):  # a peer that is not up yet gives EIO
                os.write(tuns[side], packet)
