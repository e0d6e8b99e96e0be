"""Reads the text of a partitioned HLO module: what each device receives and computes in one run.

It needs only the standard library.

The module is that after the SPMD partitioner, where types are still those of the program. XLA's CPU
backend later converts bfloat16 collectives to float32, which would double their bytes. The body of
a loop counts once for each iteration. A sum of all-reduces counts as one all-reduce of the sum,
because XLA's pipeline for GPUs transforms it so (AllReduceReassociate); the one for CPUs does not.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from mi300bench.errors import RecordError

KINDS = ("all-gather", "all-reduce", "reduce-scatter", "all-to-all", "collective-permute")
BYTES = {
    "pred": 1,
    "s8": 1,
    "u8": 1,
    "bf16": 2,
    "f16": 2,
    "s16": 2,
    "u16": 2,
    "f32": 4,
    "s32": 4,
    "u32": 4,
    "f64": 8,
    "s64": 8,
    "u64": 8,
}
_SHAPE = re.compile(r"([a-z]+\d*)\[([\d,]*)\]")
_HEAD = re.compile(r"^\s*(ENTRY\s+)?%?([\w.\-]+)\s*\(.*\)\s*->.*\{\s*$")
_INSTRUCTION = re.compile(r"^\s*(?:ROOT\s+)?%?([\w.\-]+)\s*=\s*(.*?)\s([a-z][\w\-]*)\((.*)$")
_GROUPS = re.compile(
    r"replica_groups=(mesh\[[^\]]*\][^{]*\{[^}]*\}|\[\d+,\d+\]|\{(?:\{[\d,]*\},?)*\})"
)
_CALLED = re.compile(r"(?:calls|to_apply|body|condition|branch_computations)=\{?%?([\w.\-]+)")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One line of a module: name, result type, operation, and the rest of the line."""

    name: str
    shape: str
    op: str
    rest: str


@dataclass(slots=True)
class Traffic:
    """What one device receives and computes.

    received  bytes by kind of collective
    among     bytes by size of group
    calls     number of collectives by kind
    flop      FLOP of its products
    """

    received: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    among: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    calls: Counter[str] = field(default_factory=Counter)
    flop: float = 0.0

    def add(self, other: "Traffic", times: int = 1) -> None:
        """Add `times` times the traffic of `other`."""
        for kind, amount in other.received.items():
            self.received[kind] += amount * times
        for size, amount in other.among.items():
            self.among[size] += amount * times
        for kind, count in other.calls.items():
            self.calls[kind] += count * times
        self.flop += other.flop * times


def parse(text: str) -> tuple[dict[str, list[Instruction]], str]:
    """Return the computations of a module by name, and the name of its entry."""
    computations: dict[str, list[Instruction]] = {}
    current, entry = "", ""
    for line in text.splitlines():
        head = _HEAD.match(line)
        if head:
            current = head.group(2)
            computations[current] = []
            entry = current if head.group(1) else entry
        elif line.strip() == "}":
            current = ""
        elif current and (match := _INSTRUCTION.match(line)):
            computations[current].append(Instruction(*match.groups()))
    if not entry:
        raise RecordError(
            "the compiled module has no entry computation",
            hint="install jaxlib 0.10; other versions may print modules differently",
        )
    return computations, entry


def shape_bytes(shape: str) -> int:
    """Return the bytes of a type in HLO's notation; for a tuple, the sum."""
    total = 0
    for kind, dims in _SHAPE.findall(shape):
        size = BYTES.get(kind, 0)
        for dim in dims.split(","):
            size *= int(dim) if dim else 1
        total += size
    return total


def _dims(shape: str) -> list[int]:
    match = _SHAPE.search(shape)
    return [int(dim) for dim in match.group(2).split(",") if dim] if match else []


def groups_of(rest: str) -> str:
    """Return the groups of a collective, in any of HLO's notations; empty for all devices."""
    match = _GROUPS.search(rest)
    if match is None:
        if "replica_groups=" in rest:
            raise RecordError(
                f"the groups of a collective cannot be read: {rest[:160]}",
                hint="install jaxlib 0.10; other versions may print groups differently",
            )
        return ""
    return match.group(1)


def group_size(rest: str, devices: int) -> int:
    """Return the number of devices in each group of a collective."""
    groups = groups_of(rest)
    # A mesh: axes with their sizes, sometimes the order of devices, then the axes of a group.
    if groups.startswith("mesh"):
        axes = {name: int(size) for name, size in re.findall(r"'([^']+)'=(\d+)", groups)}
        size = 1
        for name in re.findall(r"'([^']+)'", groups.rpartition("{")[2]):
            size *= axes[name]
        return size
    if groups.startswith("["):  # [number of groups, size of each]
        return int(groups[1:-1].split(",")[1])
    listed = groups.strip("{}").split("}")[0]
    return len(listed.split(",")) if listed else devices


def received_bytes(kind: str, result_bytes: float, size: int) -> float:
    """Return the bytes that a device receives in a ring of `size`, from those of its result."""
    if size < 2:
        return 0.0
    if kind == "all-reduce":
        return 2 * (size - 1) / size * result_bytes
    if kind == "reduce-scatter":
        return (size - 1) * result_bytes
    if kind == "collective-permute":
        return result_bytes
    return (size - 1) / size * result_bytes


def _product_flop(instruction: Instruction, shapes: Mapping[str, str]) -> float:
    operands = _operands(instruction)
    contracted = re.search(r"lhs_contracting_dims=\{([\d,]*)\}", instruction.rest)
    if not operands or contracted is None or operands[0] not in shapes:
        return 0.0
    left, flop = _dims(shapes[operands[0]]), 2.0
    for dim in _dims(instruction.shape):
        flop *= dim
    for index in contracted.group(1).split(","):
        flop *= left[int(index)] if index else 1
    return flop


def trip_count(rest: str, computations: Mapping[str, list[Instruction]]) -> int:
    """Return the iterations of a loop: the compiler's count, or the constant of its condition."""
    if match := re.search(r'"?known_trip_count"?:\{"?n"?:"?(\d+)', rest):
        return int(match.group(1))
    condition = re.search(r"condition=%?([\w.\-]+)", rest)
    constants = [
        int(match.group(1))
        for instruction in computations.get(condition.group(1) if condition else "", [])
        if instruction.op == "constant" and (match := re.match(r"(\d+)\)", instruction.rest))
    ]
    if len(constants) != 1:
        raise RecordError(
            f"the iterations of a loop cannot be read: {rest[:120]}",
            hint="install jaxlib 0.10; other versions may print loops differently",
        )
    return constants[0]


def _operands(instruction: Instruction) -> list[str]:
    return re.findall(r"%([\w.\-]+)", instruction.rest.split(")")[0])


def _merged(instructions: list[Instruction]) -> set[str]:
    """Return the all-reduces that a sum merges with another all-reduce of the same groups."""
    uses: Counter[str] = Counter(
        name for instruction in instructions for name in _operands(instruction)
    )
    reduced: dict[str, str] = {}  # shape and groups of each reduced value, by its name
    gone: set[str] = set()
    for instruction in instructions:
        if instruction.op == "all-reduce":
            reduced[instruction.name] = (
                f"{instruction.shape.split('{')[0]} {groups_of(instruction.rest)}"
            )
        elif instruction.op == "add":
            parts = _operands(instruction)
            if (
                len(parts) == 2
                and all(p in reduced and uses[p] == 1 for p in parts)
                and reduced[parts[0]] == reduced[parts[1]]
            ):
                gone.add(_all_reduce_of(parts[0], instructions, gone))
                reduced[instruction.name] = reduced[parts[0]]
    return gone


def _all_reduce_of(name: str, instructions: list[Instruction], gone: set[str]) -> str:
    """Return an all-reduce of a reduced value that was not merged yet."""
    by_name = {instruction.name: instruction for instruction in instructions}
    waiting = [name]
    while waiting:
        operand = by_name[waiting.pop()]
        if operand.op == "all-reduce" and operand.name not in gone:
            return operand.name
        if operand.op == "add":
            waiting += _operands(operand)
    raise AssertionError(f"{name} is not a sum of all-reduces")


class _Reader:
    """Adds up the traffic of computations, and reads each only once."""

    def __init__(self, computations: Mapping[str, list[Instruction]], devices: int) -> None:
        self.computations, self.devices = computations, devices
        self.known: dict[str, Traffic] = {}

    def of(self, name: str) -> Traffic:
        """Return the traffic of one run of a computation, with all computations that it calls."""
        if name not in self.known:
            total = Traffic()
            shapes = {
                instruction.name: instruction.shape for instruction in self.computations[name]
            }
            merged = _merged(self.computations[name])
            for instruction in self.computations[name]:
                if instruction.name not in merged:
                    self._add(total, instruction, shapes)
            self.known[name] = total
        return self.known[name]

    def _add(self, total: Traffic, instruction: Instruction, shapes: Mapping[str, str]) -> None:
        kind, rest = instruction.op.removesuffix("-start"), instruction.rest
        if kind in KINDS:
            size = group_size(rest, self.devices)
            received = received_bytes(kind, shape_bytes(instruction.shape), size)
            total.received[kind] += received
            total.among[size] += received
            total.calls[kind] += size > 1
        elif kind == "dot":
            total.flop += _product_flop(instruction, shapes)
        elif kind == "while":
            (body,) = re.findall(r"body=%?([\w.\-]+)", rest)
            total.add(self.of(body), trip_count(rest, self.computations))
        elif kind in ("call", "fusion", "conditional", "custom-call", "async"):
            for called in _CALLED.findall(rest):
                if called in self.computations:
                    total.add(self.of(called))


def traffic(text: str, devices: int) -> Traffic:
    """Return what one device receives and computes in one run of a partitioned module."""
    computations, entry = parse(text)
    return _Reader(computations, devices).of(entry)
