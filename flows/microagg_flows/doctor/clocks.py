"""Clocks that differ: stores refuse requests of another time, and signs of life look old."""

from __future__ import annotations

from microagg_flows.doctor.findings import Finding, strange, well

#: Who is that far from here is worth a word: S3 refuses requests from 15 minutes on.
_MOST_SECONDS = 60.0


def clock_finding(whose: str, ahead: float) -> Finding:
    """Whether a clock is right, that is, the same as here.

    >>> clock_finding("the store's clock", -0.2).line()
    "ok       clock: the store's clock is right to a second"
    >>> clock_finding("worker 2's clock", 912.3).line()
    "warning  clock: worker 2's clock is 912 s ahead of this machine's; set both by the same time server"
    """
    if abs(ahead) < _MOST_SECONDS:
        exactly = "to a second" if abs(ahead) < 1 else f"within {abs(ahead):.0f} s"
        return well("clock", f"{whose} is right {exactly}")
    word = "ahead of" if ahead > 0 else "behind"
    return strange("clock", f"{whose} is {abs(ahead):.0f} s {word} this machine's; set both by the same time server")
