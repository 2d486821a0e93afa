"""Rules and outputs of NsaCompress and NsaCompressGrad."""

import pytest


def compress(good, tokens, heads, dim, block, stride, ends, rows=None):
    from_list = good("NsaCompress").listed("actual_seq_len", ends)
    return from_list.but(
        input=("float16", (tokens, heads, dim)),
        weight=("float16", (block, heads)),
        compress_block_size=block,
        compress_stride=stride,
        num_windows=-1 if rows is None else rows,
    )


# The shapes of the operators' public tests: tokens, heads, dim, block, stride, list, exact rows.
PUBLIC = [
    (64, 4, 32, 32, 32, (64,), 2),
    (4800, 4, 64, 16, 16, tuple(range(100, 4801, 100)), 288),
    (48, 32, 16, 16, 16, (16, 32, 48), 3),
    (48, 32, 16, 32, 16, (16, 32, 48), 0),
    (256, 8, 128, 64, 16, (80, 176, 256), 7),
    (272, 64, 128, 32, 16, (0, 128, 272), 15),
    (272, 128, 192, 32, 16, (0, 120, 140, 272), 13),
    (49, 128, 192, 32, 16, (0, 5, 49), 1),
]


@pytest.mark.parametrize("target", ["cpu", "ascend"])
@pytest.mark.parametrize("tokens, heads, dim, block, stride, ends, rows", PUBLIC)
def test_public_shapes(good, tokens, heads, dim, block, stride, ends, rows, target):
    call = compress(good, tokens, heads, dim, block, stride, ends, rows)
    assert call.infer(target) == [("float16", (rows, heads, dim))]
    by_shape = call.but(num_windows=-1)
    assert by_shape.shapes(target) == [(tokens // stride, heads, dim)]

    grad = good("NsaCompressGrad").but(
        output_grad=("float16", (rows, heads, dim)),
        compress_block_size=block,
        compress_stride=stride,
        **{name: call.inputs[name] for name in ("input", "weight", "actual_seq_len")},
    )
    assert grad.shapes(target) == [(tokens, heads, dim), (block, heads)]
    more = grad.shaped("output_grad", (rows + 5, heads, dim))
    assert more.shapes(target) == grad.shapes(target)
    if rows > 0:
        grad.shaped("output_grad", (rows - 1, heads, dim)).fails(
            ValueError, "output_grad", rows, (rows - 1, heads, dim), target=target
        )
        call.but(num_windows=rows - 1).fails(ValueError, "num_windows", rows, rows - 1)


def test_more_windows_than_needed(good):
    assert good("NsaCompress").but(num_windows=20).shapes() == [(20, 8, 128)]
    good("NsaCompress").but(num_windows=-2).fails(ValueError, "num_windows", ">= -1", -2)


def test_rows_are_checked_once_the_list_is_known(good):
    call = good("NsaCompress").but(num_windows=3)
    assert call.blind().shapes() == [(3, 8, 128)]
    call.fails(ValueError, "num_windows", 15, 3)


def test_no_tokens(good):
    call = compress(good, 0, 8, 128, 32, 16, (0, 0))
    assert call.shapes() == [(0, 8, 128)]


def test_dynamic_tokens(good):
    call = good("NsaCompress").but(num_windows=-1).shaped("input", (-1, 8, 128)).blind()
    assert call.shapes() == [(-1, 8, 128)]
    assert call.but(input=("float16", None)).shapes() == [(-1, 8, -1)]
    assert call.but(input=("float16", None), weight=("float16", None)).shapes() == [(-1, -1, -1)]


@pytest.mark.parametrize("name", ["NsaCompress", "NsaCompressGrad"])
def test_window(good, name):
    call = good(name)
    call.but(compress_stride=0).fails(ValueError, "compress_stride", 0)
    call.but(compress_stride=-4).fails(ValueError, "compress_stride", -4)
    call.but(compress_stride=33).fails(ValueError, "compress_block_size", 33, 32)
    call.but(compress_block_size=48).fails(ValueError, "weight", (48, 8), (32, 8))
    call.shaped("weight", (16, 8)).fails(ValueError, "weight", (32, 8), (16, 8))


@pytest.mark.parametrize("name", ["NsaCompress", "NsaCompressGrad"])
def test_empty_axes(good, name):
    good(name).shaped("input", (272, 0, 128)).fails(ValueError, "input", "N >= 1", (272, 0, 128))
    good(name).shaped("input", (272, 8, 0)).fails(ValueError, "input", "D >= 1", (272, 8, 0))


@pytest.mark.parametrize("block, stride, dim", [(1, 1, 1), (7, 3, 40), (33, 32, 257)])
def test_any_sizes_on_cpu(good, block, stride, dim):
    call = compress(good, 100, 3, dim, block, stride, (100,))
    assert call.shapes() == [(100 // stride, 3, dim)]
