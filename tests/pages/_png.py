"""PNG files of few colours, small enough to keep in a repository."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import numpy.typing as npt

SIGNATURE = b"\x89PNG\r\n\x1a\n"
Pixels = npt.NDArray[np.uint8]


def smaller(data: bytes) -> bytes:
    """The same picture with at most 256 colours."""
    pixels = _read(data)
    height, width, _ = pixels.shape
    coarse = (pixels >> 2).astype(np.int64) @ np.array([1 << 12, 1 << 6, 1])
    values, places, counts = np.unique(coarse, return_inverse=True, return_counts=True)
    colours = np.stack([values >> 12, (values >> 6) & 63, values & 63], axis=1) * 255 // 63
    order = np.argsort(-counts)
    palette = colours[order[:256]]
    nearest = np.empty(len(values), np.uint8)
    for start in range(0, len(values), 1024):
        part = colours[start : start + 1024, None, :] - palette[None, :, :]
        nearest[start : start + 1024] = (part**2).sum(axis=2).argmin(axis=1)
    rows = nearest[places.reshape(height, width)]
    raw = b"".join(b"\0" + row.tobytes() for row in rows)
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    return b"".join(
        (
            SIGNATURE,
            _chunk(b"IHDR", header),
            _chunk(b"PLTE", palette.astype(np.uint8).tobytes()),
            _chunk(b"IDAT", zlib.compress(raw, 9)),
            _chunk(b"IEND", b""),
        )
    )


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def _read(data: bytes) -> Pixels:
    """The red, green and blue of a PNG of eight bits a channel."""
    width = height = channels = 0
    packed = b""
    at = len(SIGNATURE)
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack_from(">IIBB", body)
            channels = {2: 3, 6: 4}[colour]
            assert depth == 8
        elif kind == b"IDAT":
            packed += body
        at += length + 12
    lines = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, width * channels + 1)
    before = np.zeros((width, channels), np.int64)
    found = np.empty((height, width, channels), np.uint8)
    for y in range(height):
        filtered = lines[y, 1:].reshape(width, channels).astype(np.int64)
        before = found[y] = _unfiltered(int(lines[y, 0]), filtered, before)
    return found[:, :, :3]


def _unfiltered(
    kind: int, line: npt.NDArray[np.int64], above: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """A line with its filter undone: none, from the left, from above, or from both."""
    if kind == 0:
        return line
    if kind == 1:
        return np.cumsum(line, axis=0) % 256
    if kind == 2:
        return (line + above) % 256
    made = np.empty_like(line)
    left, corner = np.zeros_like(line[0]), np.zeros_like(line[0])
    for x in range(len(line)):
        if kind == 3:
            guess = (left + above[x]) // 2
        else:
            a, b, c = (
                abs(above[x] - corner),
                abs(left - corner),
                abs(left + above[x] - 2 * corner),
            )
            guess = np.where((a <= b) & (a <= c), left, np.where(b <= c, above[x], corner))
        left = made[x] = (line[x] + guess) % 256
        corner = above[x]
    return made
