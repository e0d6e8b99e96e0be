"""Parsing and printing of quantities. Only this module uses unit prefixes.

Seconds, bytes, FLOP and their rates are plain floats everywhere else. Sizes are parsed as in
rccl-tests: K, M, G and KiB, MiB, GiB are binary; kB, MB, GB are decimal.
"""

import re
from enum import StrEnum

from mi300bench.errors import PlanError


class Unit(StrEnum):
    """What a number counts."""

    SECOND = "s"
    BYTE = "B"
    FLOP = "FLOP"
    BYTE_PER_SECOND = "B/s"
    FLOP_PER_SECOND = "FLOP/s"
    HERTZ = "Hz"
    WATT = "W"
    COUNT = ""


MIB = 1024**2
GIB = 1024**3

# Bytes of one element, by the dtype name that torch and numpy share.
ELEMENT_BYTES = {
    "bfloat16": 2,
    "float16": 2,
    "float32": 4,
    "float64": 8,
    "int32": 4,
    "uint8": 1,
    "float8_e4m3": 1,
}
DTYPE_ALIASES = {
    "bf16": "bfloat16",
    "fp16": "float16",
    "half": "float16",
    "fp32": "float32",
    "float": "float32",
    "fp8": "float8_e4m3",
}

_FACTORS = {
    "": 1,
    "b": 1,
    "k": 1024,
    "m": 1024**2,
    "g": 1024**3,
    "kib": 1024,
    "mib": 1024**2,
    "gib": 1024**3,
    "kb": 1000,
    "mb": 1000**2,
    "gb": 1000**3,
}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")
_SIZE_HINT = (
    "write a number with B, K/KiB, M/MiB, G/GiB (binary) or kB, MB, GB (decimal), "
    "such as 16MB or 64MiB"
)
_PREFIXES = (
    (1e15, "P"),
    (1e12, "T"),
    (1e9, "G"),
    (1e6, "M"),
    (1e3, "k"),
    (1.0, ""),
    (1e-3, "m"),
    (1e-6, "u"),
)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_DURATION_SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def dtype_name(text: str) -> str:
    """Return torch's name of a dtype; raise `PlanError` if no probe measures it."""
    name = DTYPE_ALIASES.get(text.lower(), text.lower())
    if name not in ELEMENT_BYTES:
        raise PlanError(
            f"unknown dtype {text!r}",
            hint=f"choose one of {', '.join([*DTYPE_ALIASES, *ELEMENT_BYTES])}",
        )
    return name


def _split_size(text: str) -> tuple[float, str]:
    match = _SIZE.fullmatch(text)
    if match is None or match.group(2).lower() not in _FACTORS:
        raise PlanError(f"cannot read {text!r} as a size", hint=_SIZE_HINT)
    return float(match.group(1)), match.group(2)


def _to_bytes(number: float, unit: str, text: str) -> int:
    size = number * _FACTORS[unit.lower()]
    if size != int(size) or size < 1:
        raise PlanError(
            f"{text!r} is {size:g} bytes, which is not a positive whole number", hint=_SIZE_HINT
        )
    return int(size)


def parse_size(text: str) -> int:
    """Return the bytes of a size such as ``64MiB`` (binary) or ``16MB`` (decimal)."""
    number, unit = _split_size(text)
    return _to_bytes(number, unit, text)


def parse_sizes(text: str) -> tuple[int, ...]:
    """Return the sizes in bytes of a list such as ``1,16,256MB`` or a range such as ``8:128M:x2``.

    A unit on the last size of a list applies to the bare numbers before it.
    """
    if ":" in text:
        return _size_range(text)
    parts = [_split_size(part) for part in text.split(",")]
    last_unit = parts[-1][1]
    return tuple(_to_bytes(number, unit or last_unit, text) for number, unit in parts)


def _size_range(text: str) -> tuple[int, ...]:
    pieces = text.split(":")
    if len(pieces) not in (2, 3) or (len(pieces) == 3 and pieces[2][:1] not in ("x", "+")):
        raise PlanError(
            f"cannot read {text!r} as a range of sizes",
            hint="write FROM:TO:xFACTOR or FROM:TO:+STEP",
        )
    first, last = parse_size(pieces[0]), parse_size(pieces[1])
    rule = pieces[2] if len(pieces) == 3 else "x2"
    step = parse_size(rule[1:])
    if first > last or (rule[0] == "x" and step < 2):
        raise PlanError(
            f"the range {text!r} does not grow",
            hint="FROM must be at most TO, and the factor at least 2",
        )
    sizes = [first]
    while (following := sizes[-1] * step if rule[0] == "x" else sizes[-1] + step) <= last:
        sizes.append(following)
        if len(sizes) > 10_000:
            raise PlanError(
                f"the range {text!r} has more than 10,000 sizes", hint="choose a larger step"
            )
    return tuple(sizes)


def parse_integers(text: str) -> tuple[int, ...]:
    """Return the integers of a list such as ``2,4,8`` or of a range such as ``256:4096:x2``."""
    return parse_sizes(text)


def parse_duration(text: str) -> float:
    """Return the seconds of ``90s``, ``5m`` or ``1h30m``."""
    cleaned = text.strip().lower()
    pieces = _DURATION.findall(cleaned)
    if not pieces or "".join(number + unit for number, unit in pieces) != cleaned:
        raise PlanError(
            f"cannot read {text!r} as a time",
            hint="write a number with s, m or h, such as 90s or 5m",
        )
    seconds = sum(float(number) * _DURATION_SECONDS[unit] for number, unit in pieces)
    if seconds <= 0:
        raise PlanError(
            f"the time {text!r} is not positive", hint="write a positive time, such as 90s or 5m"
        )
    return seconds


def format_quantity(value: float | None, unit: Unit, digits: int = 3) -> str:
    """Return `value` with an SI prefix and `digits` significant digits; ``unknown`` for None.

    >>> format_quantity(4.012e12, Unit.BYTE_PER_SECOND)
    '4.01 TB/s'
    """
    if value is None:
        return "unknown"
    if value == 0:
        return f"0 {unit}".strip()
    magnitude = abs(value)
    scale, prefix = next(((s, p) for s, p in _PREFIXES if magnitude >= s * 0.9995), (1e-9, "n"))
    number = value / scale
    decimals = max(0, digits - len(str(int(abs(number) + 0.5 * 10 ** -(digits - 1)))))
    return f"{number:.{decimals}f} {prefix}{unit}".strip()


def format_bytes(size: float) -> str:
    """Return a size with a binary prefix: ``64 MiB``, ``1.5 KiB``, ``12 B``."""
    for scale, name in ((GIB, "GiB"), (MIB, "MiB"), (1024, "KiB")):
        if size >= scale:
            return f"{size / scale:.4g} {name}"
    return f"{size:.0f} B"
