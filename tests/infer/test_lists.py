"""Sequence lists: the rules of prefix sums, for every list of every operator."""

import pytest

from mindspore_nsa import _native

from .conftest import DECODING

MAY_END_ANYWHERE = {"actual_sel_seq_kvlen"}
MAY_END_EARLY = {
    ("NsaCompressAttention", "actual_cmp_seq_kvlen"),
    ("FlashAttentionScoreGrad compressed", "actual_seq_kvlen"),
    ("BlockIndexer compressed", "actual_seq_kvlen"),
}


def test_negative(good, call_name, sums_name):
    values = list(good(call_name).inputs[sums_name][2])
    values[0] = -3
    good(call_name).listed(sums_name, values).fails(
        ValueError, sums_name, "non-negative", -3, "index 0"
    )


def test_decreasing(good, call_name, sums_name):
    values = list(good(call_name).inputs[sums_name][2])
    values[-2] = values[-1] + 1
    good(call_name).listed(sums_name, values).fails(
        ValueError, sums_name, "non-decreasing", f"{values[-1]} after {values[-2]}"
    )


def test_wrong_end(good, call_name, sums_name):
    call = good(call_name)
    *head, last = call.inputs[sums_name][2]
    if sums_name in MAY_END_ANYWHERE:
        call.listed(sums_name, [*head, last + 7]).infer()
    elif (call_name, sums_name) in MAY_END_EARLY:
        total = call.inputs["key"][1][0]
        call.listed(sums_name, [*head, total + 1]).fails(
            ValueError, sums_name, "end at or before", total, total + 1
        )
    else:
        for wrong in (last - 1, last + 1):
            call.listed(sums_name, [*head, wrong]).fails(
                ValueError, sums_name, "end at", last, wrong
            )


def test_early_end_is_legal_for_compressed_keys(good):
    good("NsaCompressAttention").listed("actual_cmp_seq_kvlen", [4, 8]).infer()
    good("FlashAttentionScoreGrad compressed").listed("actual_seq_kvlen", [30, 70]).infer()


@pytest.mark.parametrize("windows", [(16, 3), (4, 3), (5, 0), (5, 4)])
def test_lists_that_contradict_each_other(good, windows):
    """5 and 3 windows of 32, 16 apart, are complete in 100 and 70 tokens."""
    call = good("NsaCompressAttentionInfer")
    wrong = call.listed("actual_cmp_seq_kvlen", windows)
    at = 0 if windows[0] != 5 else 1
    wrong.fails(
        ValueError,
        "actual_cmp_seq_kvlen",
        f"the {(5, 3)[at]} windows that are complete in the {(100, 70)[at]} tokens of",
        f"{windows[at]} at index {at}",
    )
    wrong.blind().infer()
    # Without positions a query sees whatever there is.
    alone = wrong.but(actual_sel_seq_kvlen=None, init_blocks=0, local_blocks=0)
    alone.but(query=("float16", (2, 8, 64)), actual_seq_qlen=None).infer()


def test_empty_list(good, call_name, list_name):
    call = good(call_name)
    call.listed(list_name, []).fails(ValueError, list_name)
    call.shaped(list_name, (0,)).fails(ValueError, list_name)


def test_lengths_differ(good, call_name, list_name):
    call = good(call_name)
    values = list(call.inputs[list_name][2])
    longer = [*values, values[-1]]
    if list_name == "actual_seq_len" and call.op not in DECODING:
        assert call.listed(list_name, longer).infer() == call.infer()
        return
    for spoiled in (call.listed(list_name, longer), call.shaped(list_name, (len(longer),))):
        with pytest.raises(ValueError, match=rf"\b{len(longer)}\b"):
            spoiled.infer()


def test_values_and_shape_disagree(good, call_name, list_name):
    call = good(call_name)
    dtype, shape, values = call.inputs[list_name]
    with pytest.raises(ValueError):
        call.but(**{list_name: (dtype, (shape[0] + 1,), values)}).infer()


def test_list_elements_are_ints(good, call_name, list_name):
    call = good(call_name)
    dtype, shape, values = call.inputs[list_name]
    for wrong in (1.5, "3", None, True):
        spoiled = (*values[:-1], wrong)
        call.but(**{list_name: (dtype, shape, spoiled)}).fails(
            TypeError, list_name, type(wrong).__name__
        )
    call.but(**{list_name: (dtype, shape, 5)}).fails(TypeError, list_name, "5 (int)")


def test_int32_lists(good, call_name):
    call = good(call_name)
    for name, value in call.inputs.items():
        if value and len(value) == 3:
            call = call.typed(name, "int32")
    assert call.infer() == good(call_name).infer()


@pytest.mark.parametrize(
    "name", ["NsaCompressAttention", "NsaSelectedAttention", "FlashAttentionScoreGrad compressed"]
)
def test_query_offset(good, name):
    good(name).listed("q_offset", [0, -1]).fails(ValueError, "q_offset", -1, "index 1")
    good(name).listed("q_offset", [2**62, 0]).fails(ValueError, "q_offset", 2**62)
    good(name).listed("q_offset", [0]).fails(ValueError, "q_offset", "actual_seq_qlen")


def test_empty_segments_and_leading_zero(good):
    call = good("NsaSelectedAttention").but(q_offset=None)
    call = call.listed("actual_seq_qlen", [0, 16, 16, 48, 48])
    call = call.listed("actual_seq_kvlen", [0, 100, 100, 300, 300])
    assert call.shapes() == [(48, 8, 48), (48, 8, 8), (48, 8, 8)]


@pytest.mark.parametrize(
    "values, block, stride, sums",
    [
        ((0, 128, 272), 32, 16, (0, 7, 15)),
        ((0, 120, 140, 272), 32, 16, (0, 6, 6, 13)),
        ((0, 5, 49), 32, 16, (0, 0, 1)),
        ((16, 32, 48), 16, 16, (1, 2, 3)),
        ((16, 32, 48), 32, 16, (0, 0, 0)),
        ((80, 176, 256), 64, 16, (2, 5, 7)),
        (tuple(range(100, 4801, 100)), 16, 16, tuple(range(6, 289, 6))),
        ([7], 1, 1, (7,)),
    ],
)
def test_compressed_seq_len(values, block, stride, sums):
    assert _native.compressed_seq_len(values, block, stride) == sums
    assert _native.compressed_rows(values, block, stride) == sums[-1]


def test_compressed_seq_len_counts_windows_one_by_one():
    for length in range(0, 90):
        for block, stride in ((1, 1), (5, 2), (8, 8), (16, 5), (32, 16)):
            starts = [c for c in range(0, length, stride) if c + block <= length]
            assert _native.compressed_rows((length,), block, stride) == len(starts)
            assert len(starts) <= length // stride


@pytest.mark.parametrize("function", ["compressed_rows", "compressed_seq_len"])
def test_compressed_seq_len_errors(function):
    call = getattr(_native, function)
    with pytest.raises(ValueError, match=f"{function}: compress_stride must be >= 1, got 0"):
        call((4,), 4, 0)
    with pytest.raises(ValueError, match=f"{function}: compress_block_size .* got 2"):
        call((4,), 2, 3)
    with pytest.raises(ValueError, match=f"{function}: actual_seq_len .* empty"):
        call((), 4, 2)
    with pytest.raises(ValueError, match=f"{function}: actual_seq_len .* 3 after 4"):
        call((4, 3), 4, 2)
    with pytest.raises(TypeError, match=f"{function}: actual_seq_len .*'4'"):
        call("4", 4, 2)
    with pytest.raises(TypeError, match=f"{function}: compress_block_size .*4.0"):
        call((4,), 4.0, 2)
    with pytest.raises(TypeError, match=f"{function}: compress_stride .*None"):
        call((4,), 4, None)


def test_selection_blocks():
    """Against a count of the blocks that a compressed token overlaps, or that a query reaches."""
    for block, stride, select in ((32, 16, 64), (16, 16, 16), (8, 4, 24), (12, 4, 12)):
        sizes = (block, stride, select)
        for count in range(1, 40):
            tokens = {c * stride + j for c in range(count) for j in range(block)}
            touched = {token // select for token in tokens}
            assert _native.selection_blocks(count, 0, *sizes, False, "overlap") == len(touched)
            started = range(0, count, select // stride)
            assert _native.selection_blocks(count, 0, *sizes, False, "cann") == len(started)
            reached = {position // select for position in range(count)}
            assert _native.selection_blocks(3, count, *sizes, True, "cann") == len(reached)
        assert _native.selection_blocks(0, 0, *sizes, False, "cann") == 0
        assert _native.selection_blocks(5, 0, *sizes, True, "overlap") == 0


def test_selection_blocks_errors():
    with pytest.raises(ValueError, match="compress_stride must be >= 1, got 0"):
        _native.selection_blocks(4, 4, 32, 0, 64, True, "cann")
    with pytest.raises(ValueError, match="select_block_size .* got 8"):
        _native.selection_blocks(4, 4, 32, 16, 8, True, "cann")
    with pytest.raises(ValueError, match="importance .* got 'mean'"):
        _native.selection_blocks(4, 4, 32, 16, 64, True, "mean")
