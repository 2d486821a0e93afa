"""Gradients of softmax_sum: of functions of max + ln sum, in which the maximum is a constant."""

import numpy as np
import pytest

from mindspore_nsa import reference
from mindspore_nsa.reference.attention import FLT_MAX
from tests.common.differences import check_gradient

N1, N2, D, DV = 4, 2, 3, 5
SEQ_Q, SEQ_KV = [0, 5, 9], [2, 7, 7]
HIDDEN = 6  # a query that a mask hides everything from
LISTS = {"actual_seq_qlen": SEQ_Q, "actual_seq_kvlen": SEQ_KV}
INDICES = np.random.default_rng(1).integers(-1, 3, (9, N2, 2))
MASK = np.zeros((5, 5), bool)
MASK[1] = True


def _flash(q, k, v, **more):
    return reference.flash_attention_score(
        q, k, v, N1, attn_mask=MASK, input_layout="TND", scalar_value=0.7, **LISTS, **more
    )


def _flash_grad(q, k, v, out, dy, row_max, row_sum, sum_grad, **more):
    return reference.flash_attention_score_grad(
        q, k, v, dy, N1, row_max, row_sum, out, attn_mask=MASK, input_layout="TND",
        scalar_value=0.7, softmax_sum_grad=sum_grad, **LISTS, **more,
    )  # fmt: skip


def _selected(q, k, v):
    return reference.nsa_selected_attention(q, k, v, INDICES, 0.7, N1, 2, 2, **LISTS)


def _selected_grad(q, k, v, out, dy, row_max, row_sum, sum_grad):
    return reference.nsa_selected_attention_grad(
        q, k, v, out, dy, row_max, row_sum, INDICES, 0.7, N1, 2, 2, softmax_sum_grad=sum_grad,
        **LISTS,
    )  # fmt: skip


COMPRESSED = {
    "atten_mask": MASK, "actual_seq_qlen": SEQ_Q, "actual_cmp_seq_kvlen": SEQ_KV,
}  # fmt: skip


def _compressed(q, k, v):
    out, _, row_max, row_sum = reference.nsa_compress_attention(
        q, k, v, 0.7, N1, 2, 1, 2, 2, **COMPRESSED
    )
    return out, row_max, row_sum


def _compressed_grad(q, k, v, out, dy, row_max, row_sum, sum_grad):
    return reference.nsa_compress_attention_grad(
        q, k, v, out, dy, row_max, row_sum, 0.7, N1, 2, 1, softmax_sum_grad=sum_grad, **COMPRESSED
    )


def logarithm(row_max, row_sum):
    """max + ln sum, 0 of rows that see nothing."""
    empty = row_sum == FLT_MAX
    return np.where(empty, 0, row_max) + np.log(np.where(empty, 1, row_sum))


FORMS = {
    "flash": (_flash, _flash_grad),
    "selected": (_selected, _selected_grad),
    "compressed": (_compressed, _compressed_grad),
}


@pytest.mark.parametrize("form", FORMS)
def test_finite_differences(form):
    forward, backward = FORMS[form]
    rng = np.random.default_rng(2)
    q, k, v = (rng.standard_normal(shape) for shape in ((9, N1, D), (7, N2, D), (7, N2, DV)))
    out, row_max, row_sum = forward(q, k, v)
    empty = row_sum == FLT_MAX
    assert empty[5:].all() if form != "selected" else True
    dy, weights = rng.standard_normal(out.shape), rng.standard_normal(row_sum.shape)
    # Whatever comes to a row that sees nothing goes nowhere.
    sum_grad = weights / np.where(empty, 1, row_sum)

    def loss():
        out, row_max, row_sum = forward(q, k, v)
        return (out * dy).sum() + (weights * np.sin(logarithm(row_max, row_sum))).sum()

    sum_grad *= np.cos(logarithm(row_max, row_sum))
    grads = backward(q, k, v, out, dy, row_max, row_sum, sum_grad)
    for x, gradient in zip((q, k, v), grads):
        check_gradient(loss, x, gradient, rng, places=20)
    assert not grads[0][empty[..., 0]].any()
