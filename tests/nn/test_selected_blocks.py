"""A layer reports the selection that its second branch reads."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from mindspore_nsa.nn import branches as module
from tests.ops.calls import context_mode, in_mode

from .cells import ENDS, config, filled, tokens

SETTINGS = config()


@pytest.fixture
def read(monkeypatch):
    """The blocks of every call of the second branch."""
    seen, call = [], module.selected_attention

    def watched(query, key, value, blocks, *rest, **more):
        seen.append(blocks.asnumpy())
        return call(query, key, value, blocks, *rest, **more)

    monkeypatch.setattr(module, "selected_attention", watched)
    return seen


@pytest.mark.parametrize("packed", [True, False])
def test_is_what_the_layer_reads(read, packed):
    layer, _ = filled("sparse", SETTINGS)
    x = tokens(SETTINGS, 60)
    arguments = (Tensor(x), ENDS[1:]) if packed else (Tensor(x.reshape(3, 20, -1)),)
    layer(*arguments)
    blocks = layer.selected_blocks(*arguments)
    assert blocks.dtype == ms.int32
    assert blocks.shape == (60, SETTINGS.num_kv_heads, SETTINGS.select_block_count)
    np.testing.assert_array_equal(blocks.asnumpy(), read[0])


def test_mixed_precision_rounds_the_tokens(read):
    """So many that scores of other tokens would tell."""
    layer, _ = filled("sparse", SETTINGS)
    layer.to_float(ms.float16)
    x = Tensor(tokens(SETTINGS, 2000)[None])
    layer(x)
    np.testing.assert_array_equal(layer.selected_blocks(x).asnumpy(), read[0])


def test_blocks_belong_to_the_document_and_to_the_past():
    layer, _ = filled("sparse", SETTINGS)
    blocks = layer.selected_blocks(Tensor(tokens(SETTINGS)), Tensor(ENDS[1:])).asnumpy()
    for begin, end in zip(ENDS, ENDS[1:]):
        for token in range(begin, end):
            own = (token - begin) // SETTINGS.select_block_size
            for row in blocks[token]:
                kept = row[row >= 0]
                assert len(set(kept)) == len(kept) == min(own + 1, SETTINGS.select_block_count)
                assert kept.max() == own and 0 in kept


@pytest.mark.parametrize("mode", ["graph", "jit_O0"])
def test_graph(mode):
    layer, _ = filled("sparse", SETTINGS)
    x, ends = Tensor(tokens(SETTINGS)), Tensor(ENDS[1:])
    expected = layer.selected_blocks(x, ends).asnumpy()

    def blocks(x, ends):
        return layer.selected_blocks(x, ends)

    with context_mode(mode):
        ours = in_mode(mode, blocks)(x, ends)
    np.testing.assert_array_equal(ours.asnumpy(), expected)


def test_errors():
    layer, _ = filled("sparse", SETTINGS)
    with pytest.raises(TypeError, match="NativeSparseAttention: x must be"):
        layer.selected_blocks(tokens(SETTINGS))
    with pytest.raises(ValueError, match="actual_seq_len"):
        layer.selected_blocks(Tensor(tokens(SETTINGS)), (20,))
