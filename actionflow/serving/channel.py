"""Messages over a socket: eight bytes that say how long, then the message."""

from __future__ import annotations

import socket
import struct
import time

LENGTH = struct.Struct(">Q")


def send(line: socket.socket, message: bytes) -> None:
    """Send one message."""
    line.sendall(LENGTH.pack(len(message)))
    line.sendall(message)


def receive(line: socket.socket, most: int | None = None, until: float | None = None) -> bytes:
    """One message, nothing if the other side has gone.

    A message of more than `most` bytes is an error, and so is one that has not arrived `until` a time on the clock of
    `time.monotonic`.
    """
    head = _exactly(line, LENGTH.size, until)
    if len(head) < LENGTH.size:
        return b""
    (length,) = LENGTH.unpack(head)
    if most is not None and length > most:
        raise ValueError(f"a message of {length} bytes")
    message = _exactly(line, length, until)
    return message if len(message) == length else b""


def _exactly(line: socket.socket, length: int, until: float | None) -> bytes:
    parts = bytearray()
    while len(parts) < length:
        if until is not None:
            line.settimeout(max(0.001, until - time.monotonic()))
        part = line.recv(min(length - len(parts), 1 << 20))
        if not part:
            break
        parts += part
    return bytes(parts)
