"""Any arguments at all are answered with outputs, TypeError or ValueError, never otherwise."""

import random

import pytest

from mindspore_nsa import _native

SIZES = [0, 1, 2, 7, 8, 16, 24, 40, 1024, 2048, 2**31, 2**40, 2**62, 2**63 - 1, -1, -2, -(2**63)]
DTYPES = ["float16", "float32", "bfloat16", "int32", "int64", "bool", "uint8", "float8_e5m2", None]
WORDS = ["BSH", "SBH", "BSND", "BNSD", "TND", "cann", "overlap", "", "\0"]
FLOATS = [0.0, 1.0, 0.5, -1.0, 1e308, float("nan"), float("inf")]


def random_input(rng, right):
    if rng.random() < 0.1:
        return None
    dtype, shape, *values = right or ("float16", (2, 4, 8))
    if rng.random() < 0.2:
        dtype = rng.choice(DTYPES)
    shape = [rng.choice(SIZES) if rng.random() < 0.2 else size for size in shape]
    if rng.random() < 0.1:
        shape = shape[1:] if rng.random() < 0.5 else [*shape, 1]
    if rng.random() < 0.1:
        shape = None
    if values and rng.random() < 0.5:
        values = [tuple(rng.choice(SIZES) for _ in values[0])]
        if rng.random() < 0.7:
            values = [tuple(sorted(abs(v) % 2**63 for v in values[0]))]
    return (dtype, shape and tuple(shape), *values)


def random_attr(rng, spec, right):
    if rng.random() < 0.8:
        return right
    return rng.choice({"int": [*range(10), *SIZES], "float": FLOATS, "str": WORDS}[spec["type"]])


@pytest.mark.parametrize("target", ["cpu", "ascend"])
def test_random_calls(good, call_name, target):
    rng = random.Random(f"{call_name} {target}")
    answered = 0
    for _ in range(800):
        call = good(call_name)
        if "sink" in call.names and target == "ascend":
            call.inputs["sink"] = None
        for name in call.names:
            if rng.random() < 0.2:
                call.inputs[name] = random_input(rng, call.inputs[name])
        for spec in _native.schema(call.op)["attrs"]:
            if spec["name"] in call.attrs:
                right = call.attrs[spec["name"]]
                call.attrs[spec["name"]] = random_attr(rng, spec, right)
        try:
            outputs = call.infer(target)
        except (TypeError, ValueError) as error:
            function = _native.schema(call.op)["function"]
            assert str(error).startswith(f"{function}: ")
        else:
            answered += 1
            assert len(outputs) == len(_native.schema(call.op)["outputs"])
    assert answered > 0
