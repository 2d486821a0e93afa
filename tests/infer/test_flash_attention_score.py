"""Layouts, heads, lists, dropout and sink of FlashAttentionScore and its gradient."""

import pytest

BATCHED = "FlashAttentionScore"
PACKED = "FlashAttentionScore TND"
PAIRS = [(BATCHED, PACKED), ("FlashAttentionScoreGrad", "FlashAttentionScoreGrad TND")]


@pytest.fixture
def plain(good):
    """A call with query, key and value only."""

    def build(layout, query, key, value, head_num, dtype="float16", **attrs):
        call = good(PACKED if layout == "TND" else BATCHED)
        for name in call.names:
            call.inputs[name] = None
        call.attrs = {"head_num": head_num, "input_layout": layout, **attrs}
        return call.but(query=(dtype, query), key=(dtype, key), value=(dtype, value))

    return build


def test_outputs(good):
    rows = ("float32", (3, 4, 24, 8))
    assert good(BATCHED).infer() == [("float16", (3, 4, 24, 48)), rows, rows]
    rows = ("float32", (48, 4, 8))
    assert good(PACKED).infer() == [("float16", (48, 4, 48)), rows, rows]
    assert good("FlashAttentionScoreGrad").infer() == [
        ("float16", (3, 4, 24, 64)),
        ("float16", (3, 2, 40, 64)),
        ("float16", (3, 2, 40, 48)),
        ("float16", (3, 4, 24, 40)),
        ("float32", (4,)),
    ]
    assert good("FlashAttentionScoreGrad TND").infer() == [
        ("float16", (48, 4, 64)),
        ("float16", (80, 2, 64)),
        ("float16", (80, 2, 48)),
        ("float16", (8000,)),
        ("float32", (4,)),
    ]


LAYOUTS = {
    "BSH": ((3, 24, 256), (3, 40, 128), (3, 40, 96), (3, 24, 192)),
    "SBH": ((24, 3, 256), (40, 3, 128), (40, 3, 96), (24, 3, 192)),
    "BSND": ((3, 24, 4, 64), (3, 40, 2, 64), (3, 40, 2, 48), (3, 24, 4, 48)),
    "BNSD": ((3, 4, 24, 64), (3, 2, 40, 64), (3, 2, 40, 48), (3, 4, 24, 48)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(good, plain, layout):
    query, key, value, out = LAYOUTS[layout]
    call = plain(layout, query, key, value, 4)
    assert call.shapes() == [out, (3, 4, 24, 8), (3, 4, 24, 8)]
    grad = good("FlashAttentionScoreGrad")
    for name in grad.names:
        grad.inputs[name] = call.inputs.get(name)
    rows = ("float32", (3, 4, 24, 8))
    grad = grad.but(dy=("float16", out), attention_in=("float16", out))
    grad = grad.but(softmax_max=rows, softmax_sum=rows)
    grad.attrs = call.attrs
    assert grad.shapes() == [query, key, value, (1,), (1,)]
    wrong = (*out[:-1], out[-1] + 1)
    for name in ("dy", "attention_in"):
        grad.shaped(name, wrong).fails(ValueError, name, out, wrong)
    grad = grad.but(softmax_sum_grad=rows)
    for name in ("softmax_max", "softmax_sum", "softmax_sum_grad"):
        grad.shaped(name, (3, 24, 4, 8)).fails(ValueError, name, (3, 4, 24, 8), (3, 24, 4, 8))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_dynamic_layouts(plain, layout):
    query, key, value, out = LAYOUTS[layout]
    unknown = plain(layout, (-1,) * len(query), (-1,) * len(key), (-1,) * len(value), 4)
    for shape, true in zip(unknown.shapes(), [out, (3, 4, 24, 8), (3, 4, 24, 8)]):
        assert len(shape) == len(true)
        assert all(size in (-1, full) for size, full in zip(shape, true))
    head_axis = {"BSND": 2, "BNSD": 1}.get(layout)
    if head_axis:
        assert unknown.shapes()[0][head_axis] == 4


# The built-in's docstring example, and shapes of the operators' public tests.
@pytest.mark.parametrize(
    "layout, query, key, head_num, out",
    [
        ("BSH", (2, 4, 64), (2, 4, 64), 4, (2, 4, 64)),
        ("BSH", (3, 128, 128), (3, 121, 128), 1, (3, 128, 128)),
        ("SBH", (256, 1, 128), (256, 1, 128), 1, (256, 1, 128)),
        ("BNSD", (1, 1, 128, 177), (1, 1, 64, 177), 1, (1, 1, 128, 177)),
        ("BSND", (4, 256, 16, 128), (4, 256, 8, 128), 16, (4, 256, 16, 128)),
        ("BSND", (0, 256, 16, 128), (0, 256, 8, 128), 16, (0, 256, 16, 128)),
        ("BNSD", (2, 4, 0, 64), (2, 4, 7, 64), 4, (2, 4, 0, 64)),
        ("BNSD", (2, 4, 7, 64), (2, 4, 0, 64), 4, (2, 4, 7, 64)),
    ],
)
def test_public_shapes(plain, layout, query, key, head_num, out):
    assert plain(layout, query, key, key, head_num, dtype="float32").shapes()[0] == out


def test_layout_name(good):
    for wrong in ("bsh", "BSDN", "", "NTD"):
        good(BATCHED).but(input_layout=wrong).fails(
            ValueError, "input_layout", "'BSH', 'SBH', 'BSND', 'BNSD', 'TND'", repr(wrong)
        )


def test_heads(plain):
    query, key, value, _ = LAYOUTS["BSH"]
    plain("BSH", query, key, value, 3).fails(ValueError, "query", "head_num = 3", "H = 256")
    plain("BSH", query, (3, 40, 100), value, 4).fails(ValueError, "key", "D = 64", "H = 100")
    plain("BSH", query, key, (3, 40, 97), 4).fails(ValueError, "value", "N2 = 2", "H = 97")
    plain("BSH", query, (3, 40, 192), value, 4).fails(ValueError, "key", "N1 = 4", "N2 = 3")
    plain("BSH", query, key, value, 0).fails(ValueError, "head_num", ">= 1", 0)
    plain("BSH", (3, 24, 0), key, value, 4).fails(ValueError, "query", "H >= 1", (3, 24, 0))
    query, key, value, _ = LAYOUTS["BNSD"]
    plain("BNSD", query, key, value, 2).fails(ValueError, "head_num", "N1 of query (4)", 2)
    plain("BNSD", query, (3, 3, 40, 64), (3, 3, 40, 48), 4).fails(ValueError, "key", "N2 = 3")
    plain("BNSD", query, (3, 0, 40, 64), (3, 0, 40, 48), 4).fails(ValueError, "key", "N2 >= 1")
    plain("BNSD", query, (3, 2, 40, 32), value, 4).fails(ValueError, "key", (3, 2, 40, 32))
    plain("BNSD", query, (2, 2, 40, 64), value, 4).fails(ValueError, "key", (2, 2, 40, 64))
    plain("BNSD", query, key, (3, 2, 41, 48), 4).fails(ValueError, "value", (3, 2, 41, 48))


@pytest.mark.parametrize("batched, packed", PAIRS)
def test_lists_go_with_tnd(good, batched, packed):
    for name in ("actual_seq_qlen", "actual_seq_kvlen"):
        good(packed).but(**{name: None}).fails(ValueError, name, "'TND'", "None")
        good(batched).listed(name, (1, 2, 3)).fails(ValueError, name, "None", "'TND'", "'BNSD'")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 3.5e38])
def test_scale(good, value):
    good(BATCHED).but(scalar_value=value).fails(ValueError, "scalar_value", "finite", value)
    good(BATCHED).but(scalar_value=3.4028234e38).infer()


@pytest.mark.parametrize("value", [0.0, -1.0, 1.5, float("nan"), 1e-40, 1e-50])
def test_keep_prob(good, value):
    good(BATCHED).but(keep_prob=value).fails(ValueError, "keep_prob", "(0, 1]", f"{value:g}")


def test_dropout_mask_size(good):
    good(BATCHED).but(drop_mask=None).fails(
        ValueError, "drop_mask", "keep_prob < 1", "None with 0.8"
    )
    good(BATCHED).but(drop_mask=None, keep_prob=1).infer()
    good(BATCHED).but(keep_prob=1.0).infer()
    # 3 * 4 * 24 * 40 scores.
    good(BATCHED).shaped("drop_mask", (1439,)).fails(
        ValueError, "drop_mask", 1440, 11520, "1439 bytes"
    )
    good(BATCHED).shaped("drop_mask", (3, 4, 24, 5)).infer()
    good(BATCHED).shaped("drop_mask", (3, 4, 23, 5)).fails(ValueError, "drop_mask", (3, 4, 23, 5))
    good(PACKED).shaped("drop_mask", (999,)).fails(ValueError, "drop_mask", 1000, 8000, "999 bytes")
    good(PACKED).shaped("drop_mask", (999,)).blind().infer()
    odd = good(PACKED).listed("actual_seq_kvlen", (31, 80)).but(attn_mask=None, sparse_mode=3)
    odd = odd.but(real_shift=None)
    # 4 * (20 * 31 + 28 * 49) = 7968 scores are 996 bytes.
    odd.shaped("drop_mask", (996,)).infer()
    odd.shaped("drop_mask", (995,)).fails(ValueError, "drop_mask", 996, "995 bytes")


def test_a_partial_byte_of_dropout_counts(plain):
    call = plain("BNSD", (1, 1, 3, 8), (1, 1, 3, 8), (1, 1, 3, 8), 1, keep_prob=0.5)
    call.but(drop_mask=("uint8", (2,))).infer()
    call.but(drop_mask=("uint8", (1,))).fails(ValueError, "drop_mask", 2, 9, "1 bytes")


def test_huge_score_counts_do_not_overflow(plain):
    shape = (2**20, 2**10, 2**20, 1)
    call = plain("BNSD", shape, shape, shape, 2**10)
    call.but(drop_mask=("uint8", (2**40,))).fails(ValueError, "drop_mask", f"{2**40} bytes")


def test_sink(good):
    for name in [n for pair in PAIRS for n in pair]:
        good(name).shaped("sink", (2,)).fails(ValueError, "sink", (4,), (2,))
        good(name).typed("sink", "float16").fails(TypeError, "sink", "float32", "float16")
        without = good(name).but(sink=None).shapes()
        if name.startswith("FlashAttentionScoreGrad"):
            assert without[-1] == (1,)
            assert good(name).shapes()[-1] == (4,)


def test_compressed_kind(good):
    name = "FlashAttentionScoreGrad compressed"
    expected = [(48, 4, 64), (80, 2, 64), (80, 2, 48), (1,), (1,)]
    assert good(name).shapes() == expected
    assert good(name).but(compress_stride=0).shapes() == expected
    assert good(name).but(attn_mask=None, sparse_mode=0).shapes() == expected
    good(name).but(sparse_mode=3, attn_mask=None).fails(ValueError, "sparse_mode", "0 or 1", 3)
    good(name).but(compress_block_size=-1).fails(ValueError, "compress_block_size", -1)
    good(name).but(compress_stride=33).fails(ValueError, "compress_stride", "[0, 32]", 33)
    good(name).shaped("attn_mask", (27, 60)).fails(ValueError, "attn_mask", (28, 47), (27, 60))
    good(name).shaped("attn_mask", (28, 46)).fails(ValueError, "attn_mask", (28, 47), (28, 46))
    # Like in the forward call, a segment without queries needs no columns of the mask.
    idle = good(name).listed("actual_seq_qlen", (0, 48)).listed("actual_seq_kvlen", (60, 77))
    idle.shaped("attn_mask", (48, 17)).infer()
    idle.shaped("attn_mask", (48, 16)).fails(ValueError, "attn_mask", (48, 17), (48, 16))
    plain = good(name).but(compress_block_size=0, compress_stride=0)
    plain.fails(ValueError, "q_offset", "None without compress_block_size")
    plain.but(q_offset=None).fails(ValueError, "actual_seq_kvlen", "end at T2 = 80", 77)
    batched = good("FlashAttentionScoreGrad").but(compress_block_size=32, compress_stride=16)
    batched.fails(ValueError, "input_layout", "'TND' with compress_block_size", "'BNSD'")
