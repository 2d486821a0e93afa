"""Rules and outputs of NsaSelectedAttention and NsaSelectedAttentionGrad."""

import pytest

FORWARD = "NsaSelectedAttention"
GRAD = "NsaSelectedAttentionGrad"


def test_outputs(good):
    rows = ("float32", (48, 8, 8))
    assert good(FORWARD).infer() == [("float16", (48, 8, 48)), rows, rows]
    assert good(GRAD).infer() == [
        ("float16", (48, 8, 64)),
        ("float16", (300, 2, 64)),
        ("float16", (300, 2, 48)),
    ]


# t1, t2, n1, n2, d, dv, select_block_count, lists
PUBLIC = [
    (256, 1024, 16, 4, 192, 128, 16, (128, 256), (512, 1024)),
    (64, 1024, 115, 115, 192, 128, 16, (64,), (1024,)),
    (1, 1024, 1, 1, 192, 192, 16, (1,), (1024,)),
    (8, 8192, 4, 1, 192, 128, 32, (2, 4, 6, 8), (2048, 4096, 6144, 8192)),
]


@pytest.mark.parametrize("target", ["cpu", "ascend"])
@pytest.mark.parametrize("t1, t2, n1, n2, d, dv, count, seq_q, seq_kv", PUBLIC)
def test_public_shapes(good, t1, t2, n1, n2, d, dv, count, seq_q, seq_kv, target):
    def sized(name):
        call = good(name).but(
            query=("float16", (t1, n1, d)),
            key=("float16", (t2, n2, d)),
            value=("float16", (t2, n2, dv)),
            topk_indices=("int32", (t1, n2, count)),
            head_num=n1,
            select_block_count=count,
            q_offset=None,
        )
        return call.listed("actual_seq_qlen", seq_q).listed("actual_seq_kvlen", seq_kv)

    assert sized(FORWARD).shapes(target) == [(t1, n1, dv), (t1, n1, 8), (t1, n1, 8)]
    grad = sized(GRAD).but(
        attention_out=("float16", (t1, n1, dv)),
        attention_out_grad=("float16", (t1, n1, dv)),
        softmax_max=("float32", (t1, n1, 8)),
        softmax_sum=("float32", (t1, n1, 8)),
        softmax_sum_grad=("float32", (t1, n1, 8)),
    )
    assert grad.shapes(target) == [(t1, n1, d), (t2, n2, d), (t2, n2, dv)]


@pytest.mark.parametrize("name", [FORWARD, GRAD])
def test_values(good, name):
    good(name).but(head_num=16).fails(ValueError, "head_num", "N1 of query (8)", 16)
    good(name).but(head_num=-1).fails(ValueError, "head_num", -1)
    good(name).but(scale_value=float("nan")).fails(ValueError, "scale_value", "nan")
    good(name).but(select_block_size=0).fails(ValueError, "select_block_size", 0)
    good(name).but(select_block_count=0).fails(ValueError, "select_block_count", 0)
    good(name).but(select_block_count=5).fails(ValueError, "topk_indices", (48, 2, 5), (48, 2, 4))
    good(name).typed("topk_indices", "int64").fails(TypeError, "topk_indices", "int32", "int64")
    good(name).shaped("topk_indices", (47, 2, 4)).fails(ValueError, "topk_indices", (47, 2, 4))
    good(name).shaped("topk_indices", (48, 8, 4)).fails(ValueError, "topk_indices", (48, 8, 4))


def test_saved_tensors(good):
    for name in ("softmax_max", "softmax_sum", "softmax_sum_grad"):
        good(GRAD).shaped(name, (48, 8, 1)).fails(ValueError, name, (48, 8, 8), (48, 8, 1))
        good(GRAD).typed(name, "float16").fails(TypeError, name, "float32", "float16")
    for name in ("attention_out", "attention_out_grad"):
        good(GRAD).shaped(name, (48, 8, 64)).fails(ValueError, name, (48, 8, 48), (48, 8, 64))


def test_keys_need_not_fill_the_selection(good):
    call = good(FORWARD).but(key=("float16", (5, 2, 64)), value=("float16", (5, 2, 48)))
    assert call.listed("actual_seq_kvlen", (5, 5)).shapes()[0] == (48, 8, 48)
    empty = call.but(key=("float16", (0, 2, 64)), value=("float16", (0, 2, 48)))
    assert empty.listed("actual_seq_kvlen", (0, 0)).shapes()[0] == (48, 8, 48)
