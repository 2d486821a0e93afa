"""Rules and outputs of NsaCompressAttention."""

import pytest

from mindspore_nsa import _native

NAME = "NsaCompressAttention"
# All that choose blocks by compressed keys have the rules of it.
choosing = pytest.mark.parametrize("op", [NAME, "NsaCompressAttentionInfer", "NsaDecode"])


def test_outputs(good):
    expected = [
        ("float16", (176, 8, 48)),
        ("int32", (176, 2, 2)),
        ("float32", (176, 8, 8)),
        ("float32", (176, 8, 8)),
    ]
    assert good(NAME).infer() == expected
    assert good(NAME).infer("ascend") == expected


def attention(good, t1, t2, n1, n2, d, dv, count, seq_q, seq_cmp, **changes):
    return (
        good(NAME)
        .but(
            query=("float32", (t1, n1, d)),
            key=("float32", (t2, n2, d)),
            value=("float32", (t2, n2, dv)),
            head_num=n1,
            select_block_count=count,
            causal=False,
            init_blocks=0,
            local_blocks=0,
            topk_mask=None,
            atten_mask=None,
            actual_sel_seq_kvlen=None,
            q_offset=None,
            **changes,
        )
        .listed("actual_seq_qlen", seq_q)
        .listed("actual_cmp_seq_kvlen", seq_cmp)
    )


def test_public_shapes(good):
    call = attention(good, 1024, 64, 16, 4, 192, 128, 16, (1024,), (64,))
    assert call.shapes() == [(1024, 16, 128), (1024, 4, 16), (1024, 16, 8), (1024, 16, 8)]

    call = attention(good, 2633, 4072, 7, 7, 8, 7, 16, (1384, 2633), (2266, 4072))
    call = call.listed("actual_sel_seq_kvlen", (567, 1019)).but(
        atten_mask=("bool", (1384, 2266)), topk_mask=("bool", (1384, 567))
    )
    assert call.shapes()[:2] == [(2633, 7, 7), (2633, 7, 16)]

    mask = ("bool", (256, 256))
    call = attention(good, 256, 256, 8, 8, 128, 128, 16, (256,), (256,))
    call = call.listed("actual_sel_seq_kvlen", (256,)).but(atten_mask=mask, topk_mask=mask)
    assert call.shapes()[:2] == [(256, 8, 128), (256, 8, 16)]


def test_heads(good):
    good(NAME).but(head_num=4).fails(ValueError, "head_num", "N1 of query (8)", 4)
    good(NAME).but(head_num=0).fails(ValueError, "head_num", ">= 1", 0)
    good(NAME).but(key=("float16", (9, 3, 64)), value=("float16", (9, 3, 48))).fails(
        ValueError, "key", "N1 = 8", "N2 = 3"
    )
    good(NAME).shaped("value", (9, 4, 48)).fails(ValueError, "value", (9, 4, 48))
    good(NAME).shaped("key", (9, 2, 32)).fails(ValueError, "key", (9, 2, 32))
    good(NAME).shaped("key", (9, 0, 64)).fails(ValueError, "key", "N2 >= 1", (9, 0, 64))
    good(NAME).shaped("query", (176, 8, 0)).fails(ValueError, "query", "D >= 1", (176, 8, 0))
    good(NAME).shaped("value", (9, 2, 0)).fails(ValueError, "value", "Dv >= 1", (9, 2, 0))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1e39, -1e300])
def test_scale(good, value):
    good(NAME).but(scale_value=value).fails(ValueError, "scale_value", "finite in float32", value)


@choosing
@pytest.mark.parametrize(
    "name", ["compress_block_size", "compress_stride", "select_block_size", "select_block_count"]
)
@pytest.mark.parametrize("value", [0, -16])
def test_positive_sizes(good, op, name, value):
    good(op).but(**{name: value}).fails(ValueError, name, ">= 1", value)


@choosing
def test_block_sizes_fit_together(good, op):
    good(op).but(compress_block_size=40).fails(
        ValueError, "compress_block_size", "multiple", "compress_stride (16)", 40
    )
    good(op).but(select_block_size=40).fails(
        ValueError, "select_block_size", "multiple", "compress_stride (16)", 40
    )
    good(op).but(select_block_size=16).fails(
        ValueError, "select_block_size", "compress_block_size (32)", 16
    )


@choosing
def test_importance(good, op):
    good(op).but(importance="overlap").infer()
    good(op).but(importance="mean").fails(ValueError, "importance", "'cann', 'overlap'", "'mean'")


@choosing
def test_forced_blocks(good, op):
    good(op).but(init_blocks=0, local_blocks=2).infer()
    good(op).but(init_blocks=2, local_blocks=1).fails(
        ValueError, "init_blocks + local_blocks", "select_block_count (2)", "2 + 1"
    )
    good(op).but(init_blocks=3, local_blocks=0).fails(ValueError, "init_blocks", "3 + 0")
    good(op).but(init_blocks=2**62, local_blocks=2**62).fails(ValueError, "init_blocks", 2**62)
    for name in ("init_blocks", "local_blocks"):
        good(op).but(**{name: -1}).fails(ValueError, name, ">= 0", -1)


def test_forced_blocks_need_a_diagonal(good):
    for name in ("init_blocks", "local_blocks"):
        other = {"init_blocks", "local_blocks"} - {name}
        good(NAME).but(causal=False, **{other.pop(): 0}).fails(ValueError, name, "causal", 1)


def test_derived_key_list(good):
    call = good(NAME).but(actual_cmp_seq_kvlen=None)
    assert call.infer() == good(NAME).infer()
    few = call.but(key=("float16", (8, 2, 64)), value=("float16", (8, 2, 48)))
    few.fails(ValueError, "key", "at least 9 rows", (8, 2, 64))
    few.blind().infer()
    call = call.but(causal=False, init_blocks=0, local_blocks=0)
    call.fails(ValueError, "actual_cmp_seq_kvlen", "given unless causal=True", "None")


def test_keys_that_were_not_compressed(good):
    """Compressed tokens count as many as queries where nothing else is possible."""
    all_keys = good(NAME).but(key=("float16", (176, 2, 64)), value=("float16", (176, 2, 48)))
    call = all_keys.but(q_offset=None, topk_mask=None, atten_mask=None, actual_sel_seq_kvlen=None)
    derived = call.but(actual_cmp_seq_kvlen=None)
    derived.fails(
        *(ValueError, "key must be what nsa_compress makes of the keys, 9 rows, got"),
        *((176, 2, 64), "as many as queries"),
    )
    listed = call.listed("actual_cmp_seq_kvlen", (80, 176))
    listed.fails(
        ValueError, "actual_cmp_seq_kvlen", "compressed_seq_len(actual_seq_qlen", "end at 9"
    )
    derived.blind().infer()
    listed.blind().infer()
    # A part of a longer sequence, other rules, rows without meaning.
    listed.listed("q_offset", (0, 0)).infer()
    listed.but(causal=False, init_blocks=0, local_blocks=0).infer()
    call.listed("actual_cmp_seq_kvlen", (80, 175)).infer()
    call.listed("actual_cmp_seq_kvlen", (4, 9)).infer()


def test_key_rows_past_the_list(good):
    longer = good(NAME).but(key=("float16", (12, 2, 64)), value=("float16", (12, 2, 48)))
    assert longer.infer() == good(NAME).infer()


def test_no_compressed_tokens(good):
    empty = good(NAME).but(key=("float16", (0, 2, 64)), value=("float16", (0, 2, 48)))
    empty = empty.listed("actual_cmp_seq_kvlen", (0, 0))
    assert empty.infer() == good(NAME).infer()


def test_masks_cover_the_segments(good):
    good(NAME).shaped("atten_mask", (95, 5)).fails(ValueError, "atten_mask", (96, 5), (95, 5))
    good(NAME).shaped("atten_mask", (96, 4)).fails(ValueError, "atten_mask", (96, 5), (96, 4))
    good(NAME).shaped("atten_mask", (2048, 2048)).infer()
    good(NAME).shaped("topk_mask", (95, 2)).fails(ValueError, "topk_mask", (96, 2), (95, 2))
    good(NAME).shaped("topk_mask", (96, 1)).fails(ValueError, "topk_mask", (96, 2), (96, 1))
    good(NAME).shaped("topk_mask", (96, -1)).infer()
    # Without the values of the offsets the number of blocks is unknown.
    good(NAME).shaped("topk_mask", (96, 1)).shaped("q_offset", (2,)).infer()
    # A segment without queries reads no mask.
    call = good(NAME).listed("actual_seq_qlen", (176, 176)).listed("actual_cmp_seq_kvlen", (3, 9))
    call = call.but(atten_mask=("bool", (176, 3)), topk_mask=None)
    call.infer()


@pytest.mark.parametrize(
    "changes, blocks",
    [
        ({"q_offset": None}, 2),
        ({}, 2),
        ({"causal": False, "init_blocks": 0, "local_blocks": 0}, 2),
        ({"compress_block_size": 64, "causal": False, "init_blocks": 0, "local_blocks": 0}, 2),
        (
            {
                "compress_block_size": 64,
                "importance": "overlap",
                "causal": False,
                "init_blocks": 0,
                "local_blocks": 0,
            },
            2,
        ),
        (
            {
                "compress_stride": 32,
                "importance": "overlap",
                "causal": False,
                "init_blocks": 0,
                "local_blocks": 0,
            },
            3,
        ),
    ],
)
def test_topk_mask_width(good, changes, blocks):
    call = good(NAME).but(**changes)
    call.shaped("topk_mask", (96, blocks)).infer()
    call.shaped("topk_mask", (96, blocks - 1)).fails(ValueError, "topk_mask", (96, blocks))


def test_topk_mask_width_follows_the_offset(good):
    call = good(NAME).listed("q_offset", (0, 33))
    call.fails(ValueError, "topk_mask", (96, 3), (96, 2))
    call.shaped("topk_mask", (96, 3)).infer()


def test_block_indices_fit_int32(good):
    far = 64 * 2**31
    good(NAME).but(topk_mask=None).listed("q_offset", (0, far)).fails(ValueError, "q_offset", far)


def test_selected_list_is_checked_for_form_only(good):
    good(NAME).listed("actual_sel_seq_kvlen", (80, 176)).infer()
    good(NAME).listed("actual_sel_seq_kvlen", (80, 79)).fails(ValueError, "actual_sel_seq_kvlen")
    good(NAME).listed("actual_sel_seq_kvlen", (80,)).fails(ValueError, "actual_sel_seq_kvlen")


def test_masks_on_the_block_count_of_the_binding(good):
    """The width a mask needs is what selection_blocks says of the longest segment."""
    call = good(NAME).but(causal=False, init_blocks=0, local_blocks=0)
    for importance in ("cann", "overlap"):
        width = _native.selection_blocks(5, 128, 32, 16, 64, False, importance)
        wide = call.but(importance=importance).shaped("topk_mask", (96, width))
        wide.infer()
        wide.shaped("topk_mask", (96, width - 1)).fails(ValueError, "topk_mask", (96, width))
