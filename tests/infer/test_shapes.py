"""Shapes as the operators declare them: what is declared is what inputs are checked against."""

import re

import pytest

from mindspore_nsa import _native


def shown(shape):
    """A declared shape as messages show it: sizes without their marks."""
    label, colon, _ = shape.partition(":")
    if colon:
        return label
    shape, suffix, rest = re.match(r"(.*?)( with(?:out)? |$)(.*)", shape).groups()
    sizes = [re.sub(r"[`?]| = \w+| > 0", "", size) for size in shape.split(", ")]
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''}){suffix}{rest}"


def test_marks_are_not_shown():
    assert (
        shown("T2?, N1 = head_num > 0, D > 0 with layout 'TND'") == "(T2, N1, D) with layout 'TND'"
    )
    assert shown("B, `D + Dv`") == "(B, D + Dv)"
    assert shown("8") == "(8,)"


def test_wrong_rank_shows_the_declared_shape(good, call_name):
    call = good(call_name)
    shapes = {i["name"]: i["shapes"] for i in _native.schema(call.op)["inputs"]}
    for name in (name for name in call.names if call.inputs[name] and shapes[name]):
        with pytest.raises(ValueError) as error:
            call.shaped(name, (2, 3, 5, 7, 11)).infer()
        expected = [f"{name} must be of shape {shown(shape)}, got rank 5" for shape in shapes[name]]
        assert any(text in str(error.value) for text in expected), error.value


def test_attributes_say_sizes(good):
    call = good("NsaSelectedAttention")
    call.but(head_num=6).fails(ValueError, "head_num", "N1 of query (8)", 6)
    call.but(select_block_count=3).fails(
        ValueError, "topk_indices", "(T1, N2, select_block_count) = (48, 2, 3)", "(48, 2, 4)"
    )


def test_sizes_of_later_inputs(good):
    """A size that the first input does not know is that of the next one, and checked against it."""
    call = good("NsaSelectedAttentionGrad").but(query=("float16", (-1, 8, 64)))
    assert call.shapes()[0] == (48, 8, 64)
    call.shaped("softmax_sum", (47, 8, 8)).fails(ValueError, "softmax_sum", "(48, 8, 8)", 47)
