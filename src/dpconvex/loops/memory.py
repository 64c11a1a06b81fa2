"""What numba does not offer of memory: counters that threads share, and reading ahead."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_intrinsic: Any = intrinsic


def _data(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return cgutils.create_struct_proxy(signature.args[0])(context, builder, value=args[0]).data


@_intrinsic
def publish(typing: Any, counters: Any, index: Any, value: Any) -> Any:
    """Store a counter: whoever sees it also sees everything that was written before."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        at = builder.gep(_data(context, builder, signature, args), [args[1]])
        builder.store_atomic(args[2], at, "release", 8)
        return context.get_dummy_value()

    return types.void(counters, types.intp, types.int64), generate


@_intrinsic
def look(typing: Any, counters: Any, index: Any) -> Any:
    """Load a counter, before anything that is read afterwards."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        at = builder.gep(_data(context, builder, signature, args), [args[1]])
        return builder.load_atomic(at, "acquire", 8, typ=ir.IntType(64))

    return types.int64(counters, types.intp), generate


@_intrinsic
def read_ahead(typing: Any, array: Any, offset: Any) -> Any:
    """Fetch what lies so many bytes behind the start of an array into a nearer cache: a hint that changes no result."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        line = builder.gep(builder.bitcast(_data(context, builder, signature, args), _BYTES), [args[1]])
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [line.type, number, number, number])
        hint = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(hint, [line, number(0), number(2), number(1)])  # to be read, into the second cache, data
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


_BYTES = ir.IntType(8).as_pointer()
