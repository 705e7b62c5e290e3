"""The body of a response from a server that nobody trusts: read up to a limit, packed or not.

A few hundred bytes can unpack to gigabytes, and packing can be stacked. So nobody's own unpacking is used: a body is
taken as it came, and what it unpacks to is counted piece by piece.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from biaslab.net.retry import Failed

if TYPE_CHECKING:
    import httpx

ENCODINGS = "gzip, deflate"
"""What is unpacked, as the value of ``Accept-Encoding``."""
# Bytes handed over at a time.
_CHUNK = 65536


def read(raw: Iterable[bytes], headers: httpx.Headers, most: int) -> Iterator[bytes]:
    """Yield a body in pieces of up to 64 KiB where it is packed, and as they came in ``raw`` where it is not.

    At ``most`` so many bytes are taken, as they came and unpacked: what is handed over ends with the piece that passes
    the limit.

    Raises Failed: ``too_many_bytes``: the body, or the length that its header states, is beyond the limit. ``damaged``:
    it is packed more than once, by another way than :data:`ENCODINGS`, or badly.
    """
    packed = [name.lower() for name in headers.get_list("content-encoding", split_commas=True)]
    packed = [name for name in packed if name not in ("", "identity")]
    if len(packed) > 1 or (packed and packed[0] not in ("gzip", "x-gzip", "deflate")):
        raise Failed("damaged", f"Content-Encoding {', '.join(packed)[:50]}, which was not asked for")
    stated = headers.get("content-length", "").strip()
    if stated.isascii() and stated.isdigit() and int(stated[:20]) > most:
        raise Failed("too_many_bytes", f"{int(stated[:20])} bytes stated")
    received = unpacked = 0
    pieces = _unpacking(packed[0]) if packed else lambda chunk: (chunk,)
    for chunk in raw:
        received += len(chunk)
        for piece in pieces(chunk):
            unpacked += len(piece)
            yield piece
            if unpacked > most:
                break
        if max(received, unpacked) > most:
            raise Failed("too_many_bytes", f"more than {most} bytes")


def _unpacking(name: str) -> Callable[[bytes], Iterator[bytes]]:
    # 32 lets zlib see by itself whether it is gzip or deflate.
    unpacker = zlib.decompressobj(32 + zlib.MAX_WBITS)

    def pieces(chunk: bytes) -> Iterator[bytes]:
        piece = b""
        # What follows the end of the compressed data is passed over.
        while (chunk or len(piece) == _CHUNK) and not unpacker.eof:
            try:
                piece = unpacker.decompress(chunk, _CHUNK)
            except zlib.error as error:
                raise Failed("damaged", f"Content-Encoding {name}: {error}") from None
            chunk = unpacker.unconsumed_tail
            yield piece

    return pieces
