"""WHERE ROWS COME FROM: turn what the user has into row containers, after checking its form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpconvex.data.parts import Parts as Parts

__all__ = ["Parts"]


def __getattr__(name: str) -> Any:
    if name != "Parts":
        raise AttributeError(f"module 'dpconvex.data' has no attribute {name!r}")
    from dpconvex.data.parts import Parts

    return Parts
