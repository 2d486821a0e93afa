"""nsa_selected_attention."""

import numpy as np
import pytest
from mindspore import Tensor

import mindspore_nsa

from .calls import context_mode, in_mode
from .case_bits import check_bits, named_cases
from .operators import arguments

CASES = named_cases("selected", "selected_grad")


@pytest.mark.parametrize("build, mode", CASES)
def test_named_case(build, mode):
    check_bits(build, mode)


def test_both_names_are_one_function():
    assert mindspore_nsa.nsa_select_attention is mindspore_nsa.nsa_selected_attention


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8])
@pytest.mark.parametrize("mode", ["pynative", "graph", "jit_O0"])
def test_mask_means_causal(mode, dtype):
    given = arguments("nsa_selected_attention")
    query = given.pop("query")
    causal = given.pop("causal")
    assert causal
    mask = Tensor(np.triu(np.ones((56, 56), dtype), 1))

    def with_rule(q):
        return mindspore_nsa.nsa_selected_attention(q, causal=True, **given)[0]

    def with_mask(q):
        return mindspore_nsa.nsa_selected_attention(q, atten_mask=mask, **given)[0]

    def full(q):
        return mindspore_nsa.nsa_selected_attention(q, **given)[0]

    with context_mode(mode):
        rule, masked, free = (
            in_mode(mode, f)(query).asnumpy() for f in (with_rule, with_mask, full)
        )
    assert np.array_equal(rule, masked)
    assert not np.array_equal(rule, free)


def test_content_of_a_mask_in_a_graph():
    """A constant is checked; an input of the graph is not, and stands for causal all the same."""
    given = arguments("nsa_selected_attention")
    query = given.pop("query")
    del given["causal"]
    zeros = Tensor(np.zeros((56, 56), np.bool_))

    def constant(q):
        return mindspore_nsa.nsa_selected_attention(q, atten_mask=zeros, **given)[0]

    def variable(q, mask):
        return mindspore_nsa.nsa_selected_attention(q, atten_mask=mask, **given)[0]

    with context_mode("graph"):
        with pytest.raises(ValueError, match="atten_mask must be 1 above the diagonal and 0"):
            in_mode("graph", constant)(query)
        ours = in_mode("graph", variable)(query, zeros).asnumpy()
    causal = mindspore_nsa.nsa_selected_attention(query, causal=True, **given)[0].asnumpy()
    assert np.array_equal(ours, causal)


def test_mask_changed_in_place_is_read_again():
    given = arguments("nsa_selected_attention")
    mask = Tensor(np.triu(np.ones((56, 56), np.bool_), 1))
    mindspore_nsa.nsa_selected_attention(**given, atten_mask=mask)
    mask[0, 0] = True
    with pytest.raises(ValueError, match="pass causal=True and no mask"):
        mindspore_nsa.nsa_selected_attention(**given, atten_mask=mask)
