"""Rounding to the float types of torch, without torch."""

from __future__ import annotations

import math
import struct


def to_float32(x: float) -> float:
    """Round to the nearest float32."""
    return float(struct.unpack("<f", struct.pack("<f", x))[0])


def to_bfloat16(x: float) -> float:
    """Round to the nearest bfloat16, ties to even, as torch does."""
    if not math.isfinite(x):
        return x
    (bits,) = struct.unpack("<I", struct.pack("<f", x))
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def rounded(x: float, dtype: str) -> float:
    """Round to the dtype with this torch name."""
    return {"float32": to_float32, "bfloat16": to_bfloat16}[dtype](x)


def close(a: float, b: float, *, rtol: float, atol: float) -> bool:
    """Whether two numbers agree; two NaN agree, and so do two equal infinities."""
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    if math.isinf(a) or math.isinf(b):
        return a == b
    return abs(a - b) <= atol + rtol * abs(b)
