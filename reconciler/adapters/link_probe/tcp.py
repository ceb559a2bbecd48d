"""What the kernel knows of a connection of ours: `TCP_INFO`.

Fields by their places in `struct tcp_info` of Linux' include/uapi/linux/tcp.h, which only ever grows at its end
(https://man7.org/linux/man-pages/man7/tcp.7.html). Where there is no such thing, nothing is told.
"""

import socket
import struct
import sys
from typing import Final

from reconciler.probe_port import TcpFacts

_RTT: Final = struct.Struct("=II")  # tcpi_rtt, tcpi_rttvar, microseconds
_RTT_AT: Final = 68
_RETRANSMITTED: Final = struct.Struct("=I")  # tcpi_total_retrans, segments
_RETRANSMITTED_AT: Final = 100
_ACKNOWLEDGED: Final = struct.Struct("=Q")  # tcpi_bytes_acked
_ACKNOWLEDGED_AT: Final = 120
_SENT: Final = struct.Struct("=I")  # tcpi_data_segs_out
_SENT_AT: Final = 156
_LONGEST: Final = 256
_LEAST_SEGMENTS: Final = 20
"""Of fewer no share can be told."""


def facts(connected: socket.socket) -> TcpFacts | None:
    """Round trip, its variance, and what had to be sent again; None where the kernel does not say."""
    told = _told(connected)
    if len(told) < _RETRANSMITTED_AT + _RETRANSMITTED.size:
        return None
    rtt, variance = _RTT.unpack_from(told, _RTT_AT)
    share = None
    if len(told) >= _SENT_AT + _SENT.size:
        (again,), (segments,) = _RETRANSMITTED.unpack_from(told, _RETRANSMITTED_AT), _SENT.unpack_from(told, _SENT_AT)
        share = min(again / segments, 1.0) if segments >= _LEAST_SEGMENTS else None
    return TcpFacts(rtt_ms=rtt / 1000, rtt_var_ms=variance / 1000, retransmitted=share)


def acknowledged(connected: socket.socket) -> int | None:
    """Bytes that the other end has acknowledged, since the connection was made; None where the kernel does not say."""
    told = _told(connected)
    return _ACKNOWLEDGED.unpack_from(told, _ACKNOWLEDGED_AT)[0] if len(told) >= _ACKNOWLEDGED_AT + _ACKNOWLEDGED.size else None


def _told(connected: socket.socket) -> bytes:
    if sys.platform != "linux":
        return b""
    try:
        return connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LONGEST)
    except OSError:  # the connection is gone, or a sandbox does not say: there is nothing to tell
        return b""
