"""Faults planted in how target ascend calls its functions, on MindSpore's device Ascend.

python -m mindspore_nsa.twin run -m tests.cann.faults FILE FAULT ...

writes what became of each: the error of a call, "values" where others came out, or nothing where
the fault was not found.
"""

import ctypes
import json
import os
import sys
from pathlib import Path
from unittest import mock

import mindspore as ms
import numpy as np
from mindspore import Tensor

import mindspore_nsa
from mindspore_nsa.ops import _ascend
from tests.ascendc.conftest import forget


def draw(*shape, seed=0):
    return Tensor(np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float16))


def calls():
    """Outputs of calls with two sets of attributes, absent and given inputs, and views."""
    q, k, v = (draw(2, 33, 4, 16, seed=i) for i in range(3))
    options = {"input_layout": "BSND", "scalar_value": 0.25, "return_softmax": True}
    results = [
        *mindspore_nsa.flash_attention_score(q, k, v, 4, **options),
        *mindspore_nsa.flash_attention_score(
            q, k, v, 4, real_shift=draw(1, 4, 33, 33), sparse_mode=2, **options
        ),
    ]
    wide, weight = draw(96, 4, 32), draw(32, 2)
    for x in (wide[:, 1:3], draw(96, 2, 32)):
        results.append(mindspore_nsa.nsa_compress(x, weight, 32, 16, actual_seq_len=(40, 96)))
    return [result.asnumpy() for result in results]


def around(change):
    """The calls of all aclnn functions, with a Custom that `change` puts something around."""

    def made(op, kind, forward, backward):
        return kind, lambda custom, known: forward(change(op, custom), known), backward

    return {op: made(op, *parts) for op, parts in _ascend.ACLNN.items()}


def unchanged(op, custom):
    """The control: what is put around the calls alters nothing by itself."""

    def call(*arguments):
        return custom(*arguments)

    return call


def swapped(*names):
    """Custom functions that take each of two parameters for the other.

    Their types are swapped, too: MindSpore itself refuses a Tensor where it expects None.
    """

    def change(op, custom):
        order = [parameter["name"] for parameter in _ascend._parameters(op, "input")]
        if not set(names) <= set(order):
            return custom
        one, other = map(order.index, names)

        def exchanged(values):
            values = list(values)
            values[one], values[other] = values[other], values[one]
            return values

        types = exchanged(custom.attrs["custom_inputs_type"])
        custom.add_prim_attr("custom_inputs_type", types)

        def call(*arguments):
            return custom(*exchanged(arguments))

        return call

    return around(change)


def in_reverse(op, custom):
    def call(*arguments):
        outputs = custom(*arguments)
        return outputs[::-1] if isinstance(outputs, tuple) else outputs

    return call


FAULTS = {
    "no fault": {"ACLNN": around(unchanged)},
    "one registration": {"deepcopy": lambda info: info},
    "absent tensors": {"_ABSENT_TYPE": "aclTensor*"},
    "views": {"_to_call_with": lambda x: x},
    "order of arguments": {"ACLNN": swapped("key", "value")},
    "an optional input shifted": {"ACLNN": swapped("realShiftOptional", "dropMaskOptional")},
    "order of outputs": {"ACLNN": around(in_reverse)},
}


PIECE = 2 << 20  # bytes of device memory that MindSpore maps at once


def freed(after):
    """A call whose input loses memory, after the call was made or before; MindSpore's error."""
    tokens = 2 * PIECE // 128
    shape = (tokens, 1, 64) if after else (1, tokens, 1, 64)
    x = Tensor(np.ones(shape, np.float16)).move_to("Ascend", blocking=True)
    weight, query = (y.move_to("Ascend", blocking=True) for y in (draw(32, 1), draw(1, 16, 1, 64)))
    piece = -(-x.data_ptr() // PIECE) * PIECE
    assert piece + PIECE <= x.data_ptr() + x.nbytes, "it holds another Tensor's memory, too"
    unmap = ctypes.CDLL("libascendc_twin_ascendcl.so").aclrtUnmapMem
    try:
        if after:
            out = mindspore_nsa.nsa_compress(x, weight, 32, 16, actual_seq_len=(tokens,))
        assert unmap(ctypes.c_void_p(piece)) == 0
        if not after:
            # Without lists, whose graph has its first phase in the call.
            out = mindspore_nsa.flash_attention_score(query, x, x, 1, input_layout="BSND")
        out.asnumpy()
    except RuntimeError as error:
        return str(error)[:300]
    return ""


# In this order: the second one ends the stream.
FREED = {"a tensor freed before its call": False, "a tensor freed after its call": True}


def same(got, expected):
    return all(
        a.shape == b.shape and a.tobytes() == b.tobytes()
        for a, b in zip(got, expected, strict=True)
    )


def main(file, *names):
    outcomes = {}
    # MindSpore remembers the first registration of an operator, so that fault comes before all.
    expected = None if names == ("one registration",) else calls()
    for name in names:
        forget()
        if name in FREED:
            outcomes[name] = freed(FREED[name])
            continue
        with mock.patch.multiple(_ascend, **FAULTS[name]):
            try:
                outcomes[name] = "" if same(calls(), expected) else "values"
            except Exception as error:  # an error finds the fault, too
                outcomes[name] = f"{type(error).__name__}: {error}"[:300]
    Path(file).write_text(json.dumps(outcomes))
    # After such errors MindSpore does not end in good order.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    ms.set_device("Ascend")
    main(*sys.argv[1:])
