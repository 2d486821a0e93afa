"""nsa_compress_attention."""

import logging
import sys

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

import mindspore_nsa
from mindspore_nsa.reference.importance import num_blocks
from tests.common.cases import make_case

from .calls import gradient, to_numpy
from .case_bits import check_bits, named_cases
from .operators import CMP, N1, N2, SEQ, WINDOWS, D, T, arguments, draw, sequence

CASES = named_cases("compress_attention", "compress_attention_grad")


@pytest.mark.parametrize("build, mode", CASES)
def test_named_case(build, mode):
    check_bits(build, mode)


@pytest.mark.parametrize("seed", range(8))
def test_gradient_is_the_flash_gradient(seed):
    """With and without causal, with masks larger than the segments, and key rows of no segment."""
    case = make_case(5000 + seed, "NsaCompressAttention", "float32")
    check_bits(lambda: case, "pynative")


def gradients_of(options, mask=None):
    q, k, v = draw(T, N1, D), draw(WINDOWS, N2, D), draw(WINDOWS, N2, D)

    def forward(q, k, v):
        return mindspore_nsa.nsa_compress_attention(
            q, k, v, 0.25, N1, 16, 8, 16, 3, atten_mask=mask, actual_seq_qlen=SEQ,
            actual_cmp_seq_kvlen=CMP, **options)[0]  # fmt: skip

    return to_numpy(gradient(forward, (0, 1, 2), draw(T, N1, D))(q, k, v))


def causal_mask(rows, columns):
    ends = np.arange(columns) * 8 + 15
    return ends[None, :] > np.arange(rows)[:, None]


@pytest.mark.parametrize("shape", [(56, 6), (60, 9), (T, WINDOWS)])
def test_mask_and_causal_are_the_same_thing(shape):
    """The rule as a mask, of any size that covers the segments, gives the gradients of the rule."""
    by_rule = gradients_of({"causal": True})
    by_mask = gradients_of({}, Tensor(causal_mask(*shape)))
    both = gradients_of({"causal": True}, Tensor(causal_mask(*shape).astype(np.uint8)))
    for ours in (by_mask, both):
        np.testing.assert_array_equal(ours[0], by_rule[0])
        for a, b in zip(ours[1], by_rule[1]):
            np.testing.assert_allclose(a, b, atol=1e-6)
            assert b.any()


def test_rows_of_no_segment():
    """Keys past the last segment are not read and get no gradient."""
    k = np.concatenate([draw(WINDOWS, N2, D).asnumpy(), np.full((3, N2, D), np.nan, np.float32)])
    q = draw(T, N1, D)

    def forward(q, k):
        return mindspore_nsa.nsa_compress_attention(
            q, k, k, 0.25, N1, 16, 8, 16, 3, actual_seq_qlen=SEQ, causal=True
        )[0]

    out, grads = to_numpy(gradient(forward, (0, 1), draw(T, N1, D))(q, Tensor(k)))
    assert np.isfinite(out).all() and all(np.isfinite(g).all() for g in grads)
    assert grads[1][:WINDOWS].any() and not grads[1][WINDOWS:].any()


def test_derived_list():
    """Without actual_cmp_seq_kvlen the windows of actual_seq_qlen are taken, from either form."""
    given = arguments("nsa_compress_attention")
    expected = [x.asnumpy() for x in mindspore_nsa.nsa_compress_attention(**given)]
    given["actual_cmp_seq_kvlen"] = None
    for seq in (SEQ, list(SEQ), sequence(*SEQ)):
        given["actual_seq_qlen"] = seq
        given["actual_sel_seq_kvlen"] = None
        ours = [x.asnumpy() for x in mindspore_nsa.nsa_compress_attention(**given)]
        assert all(np.array_equal(a, b) for a, b in zip(ours, expected))


def test_block_counts_that_differ_are_logged_once(caplog):
    from mindspore_nsa.ops import nsa_compress_attention as function

    module = __import__("sys").modules[function.__module__]
    module._warn_selection_lengths.cache_clear()
    given = arguments("nsa_compress_attention")
    with caplog.at_level(logging.WARNING, logger="mindspore_nsa"):
        mindspore_nsa.nsa_compress_attention(**given)
        assert not caplog.records
        for values in ((40, 96), (9, 11)):
            given["actual_sel_seq_kvlen"] = values
            mindspore_nsa.nsa_compress_attention(**given)
    assert len(caplog.records) == 1
    assert "actual_sel_seq_kvlen differs" in caplog.records[0].getMessage()


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("importance", ["cann", "overlap"])
def test_block_counts_of_every_segment(caplog, causal, importance):
    """The right list is not warned of, one that is wrong at its end is."""
    from mindspore_nsa.ops import nsa_compress_attention as function

    module = __import__("sys").modules[function.__module__]
    module._warn_selection_lengths.cache_clear()
    offsets = (20, 40)
    rule = {"importance": importance, "causal": causal}
    segments = zip(np.diff(CMP, prepend=0), np.diff(SEQ, prepend=0), offsets, strict=True)
    counts = [num_blocks(c, q, 2, 2, q_offset=o, select_block_size=16, **rule)
              for c, q, o in segments]  # fmt: skip
    ends = np.cumsum(counts).tolist()
    given = {**arguments("nsa_compress_attention"), **rule, "q_offset": offsets}
    with caplog.at_level(logging.WARNING, logger="mindspore_nsa"):
        function(**{**given, "actual_sel_seq_kvlen": ends})
        assert not caplog.records
        function(**{**given, "actual_sel_seq_kvlen": [ends[0], ends[1] + 1]})
    assert len(caplog.records) == 1


def test_the_sum_has_a_gradient_and_the_maximum_none():
    given = arguments("nsa_compress_attention")
    query = given.pop("query")

    def total(q, place):
        return mindspore_nsa.nsa_compress_attention(q, **given)[place].sum()

    assert not ms.grad(total)(query, 2).asnumpy().any()
    assert ms.grad(total)(query, 3).asnumpy().any()


def test_plans_are_kept(monkeypatch):
    """A repeated call plans nothing; one of the values of a Tensor counts."""
    function = mindspore_nsa.nsa_compress_attention
    planner = sys.modules[function.__module__]._plan_nsa_compress_attention
    planned, plan = [], planner._plan
    monkeypatch.setattr(planner, "_plan", lambda **given: planned.append(1) or plan(**given))
    planner.forget()
    given = arguments("nsa_compress_attention")
    for count, ends in ((1, given["actual_seq_qlen"]), (2, sequence(*SEQ)), (2, sequence(*SEQ))):
        given["actual_seq_qlen"] = ends
        for _ in range(2):
            function(**given)
            assert len(planned) == count
