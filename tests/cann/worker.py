"""Programs for MindSpore's device Ascend, made of the twin by `python -m mindspore_nsa.twin run`.

python -m mindspore_nsa.twin run -m tests.cann.worker operators MODE FILE CASE [CASE ...]

calls the public functions in one of MindSpore's modes, forward and gradients, and writes what they
gave to a file, for another process to judge. A CASE is "OPERATOR:FIRST:COUNT", random
configurations of a native operator, or "OPERATOR:named", those that have a name. With "layers MODE
FILE" it is the layers with the gradients of their parameters, then the sparse one as the only
worker of a context group.
"""

import itertools
import os
import pickle
import sys
import time
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Tensor

from mindspore_nsa.nn import ContextShards, NativeSparseAttention, parallel_groups
from mindspore_nsa.nn.parallel.plan import ORDERS
from tests.ascendc import (
    attention_cases,
    compress_attention_cases,
    compress_cases,
    selected_cases,
)
from tests.ascendc.launch import raw
from tests.ascendc.sweep import OPERATORS
from tests.ascendc.test_target_layers import ENDS, LAYERS, SETTINGS, data
from tests.nn.cells import differentiated, filled
from tests.ops.calls import PublicCall, context_mode, to_numpy

NAMED = {
    "NsaCompress": lambda: compress_cases.parity("NsaCompress"),
    "NsaCompressGrad": lambda: compress_cases.parity("NsaCompressGrad"),
    "NsaCompressAttention": compress_attention_cases.parity,
    "NsaSelectedAttention": selected_cases.selected_parity,
    "NsaSelectedAttentionGrad": lambda: selected_cases.selected_parity("selected_grad"),
    "FlashAttentionScore": attention_cases.flash_parity,
    "FlashAttentionScoreGrad": lambda: attention_cases.flash_parity("flash_grad"),
}


def cases(wanted):
    """(operator, name, function that makes the native case) of every case."""
    op, first, *count = wanted.split(":")
    if first == "named":
        found = [(op, name, build) for name, build in NAMED[op]().items()]
        if op == "NsaCompressAttention":
            found = [c for c in found if compress_attention_cases.accepted(c[2]())]
        return found
    found, seed = [], int(first)
    while len(found) < int(*count):
        case = OPERATORS[op].make(seed)
        if elements(case) <= MOST_ELEMENTS and in_public(case):
            found.append((op, f"seed {seed}", lambda case=case: case))
        seed += 1
    return found


# The limit counts all inputs. How a call is passed on does not depend on its size; the kernels' own
# tests have larger ones.
MOST_ELEMENTS = 200_000


def elements(case):
    values = (x[1] if isinstance(x, tuple) else x for x in case.inputs if x is not None)
    return sum(np.size(x) for x in values)


# Operators whose lists are Tensors on the device, and what they write in place.
ON_DEVICE = {
    "NsaCompressWithCache",
    "NsaCompressAttentionInfer",
    "NsaSelectedAttentionInfer",
    "NsaDecode",
}
WRITTEN = {"cache"}
# Where lists are Tensors whose values a graph is not compiled for; in PyNative mode every other
# call has Tensors, too.
TENSOR_LISTS = {"graph", "jit_O0"}


def in_public(case):
    """Whether a public function can make the call on Ascend; the kernel itself takes more."""
    # The forward operator of compressed attention takes blocks of whole 16 tokens.
    l, s = (case.attrs.get(f"compress_{x}", 0) for x in ("block_size", "stride"))  # noqa: E741
    if case.op != "FlashAttentionScoreGrad" or l == 0:
        return True
    return l % 16 == s % 16 == 0 and compress_attention_cases.accepted(case)


def operators(mode, file, *wanted):
    """Write [(label, case, outputs)], the case as the operator got it; or the error for outputs."""
    results = []
    every = [case for text in wanted for case in cases(text)]
    for number, (op, name, build) in enumerate(every):
        tensors = mode in TENSOR_LISTS or mode == "pynative" and number % 2 == 1
        started = time.monotonic()
        case = build()
        try:
            call = PublicCall(case, lists_as_tensors=case.op in ON_DEVICE or tensors)
            for name in WRITTEN.intersection(call.tensors):
                call.tensors[name] = call.tensors[name].move_to("Ascend", blocking=True)
            case, outputs = call.run(mode)
            for name in WRITTEN.intersection(call.tensors):
                _, argument = call.in_native_form(to_numpy(call.tensors[name]))
                assert raw(*argument).tobytes() == raw(*outputs).tobytes(), f"{name} as it was"
        except Exception as error:  # the other process tells of it
            outputs = f"{type(error).__name__}: {error}"[:2000]
        case.memo = {}
        results.append((f"{op} {name}", case, outputs))
        print(f"{op} {name} {time.monotonic() - started:.2f} s", flush=True)
    Path(file).write_bytes(pickle.dumps(results))


# Graphs take long to compile: every layer and dtype once.
WANTED_LAYERS = {
    "pynative": (
        *itertools.product(("sparse", "dense"), ("float16", "bfloat16")),
        ("options", "bfloat16"),
    ),
    "graph": (("sparse", "float16"), ("dense", "bfloat16"), ("options", "bfloat16")),
}


def padded_and_packed():
    """A batch with padding, its tokens packed, and the mask."""
    layer, _ = filled(*LAYERS["sparse"])
    x, mask = data("float16", 3)[:80].asnumpy().reshape(2, 40, -1), np.zeros((2, 40), bool)
    mask[0, :5] = mask[1, 30:] = True
    out = layer(Tensor(x), key_padding_mask=Tensor(mask)).asnumpy()
    return out, layer(Tensor(x[~mask]), (35, 65)).asnumpy(), mask


def layers(mode, file):
    """Write {(kind, dtype): (output and gradients, blocks)} of the layers.

    "padding": as `padded_and_packed`.
    And {order: output and gradients} of the sparse one in float16 as the only worker of a context
    group; "called": what was called of CANN's own before that.
    """
    found = {}
    for kind, dtype in WANTED_LAYERS[mode]:
        layer, _ = filled(*LAYERS[kind])
        x, upstream = data(dtype, 1), data("float32", 2)
        with context_mode(mode):
            ends = Tensor(ENDS, ms.int64) if mode == "graph" else ENDS
            results = differentiated(layer)(x, ends, upstream)
        blocks = layer.selected_blocks(x, ENDS).asnumpy() if layer.sparse else None
        found[kind, dtype] = results, blocks
    found["called"] = Path(os.environ["ASCENDC_TWIN_CALLED"]).read_text()
    with context_mode(mode):
        found["padding"] = padded_and_packed()
    for order in ORDERS:
        shards = ContextShards(ENDS[-1], parallel_groups().context, order)
        layer = NativeSparseAttention(SETTINGS, context=shards)
        parameters = filled("sparse", SETTINGS)[1]
        for p in layer.trainable_params():
            p.set_data(ms.Tensor(parameters[p.name], ms.float32))
        with context_mode(mode):
            found[order] = differentiated(layer)(data("float16", 1), ENDS, data("float32", 2))
    Path(file).write_bytes(pickle.dumps(found))


if __name__ == "__main__":
    ms.set_device("Ascend")
    {"operators": operators, "layers": layers}[sys.argv[1]](*sys.argv[2:])
