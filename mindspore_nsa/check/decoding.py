"""One call of each operator that reads a cache: pages in random order, rows of unequal length."""

from dataclasses import dataclass

import numpy as np

import mindspore_nsa
from mindspore_nsa import reference
from mindspore_nsa.testing.dtypes import round_to
from mindspore_nsa.testing.plain import Plain
from mindspore_nsa.testing.tolerance import check

LENGTHS = (150, 90)  # tokens of the two rows
WINDOWS = (8, 4)  # complete windows of 32 tokens, one every 16
HEADS, KV_HEADS, DIM, PAGE = 4, 2, 64, 16
SCALE = 0.125


def _paged(device, lengths):
    """(pages of keys, pages of values, table): pages [n, PAGE, N2, D] in random order."""
    pages = -(-max(lengths) // PAGE)
    table = device.permuted(len(lengths) * pages).reshape(len(lengths), pages)
    shape = (table.size, PAGE, KV_HEADS, DIM)
    return device.draw(*shape), device.draw(*shape), table


def nsa_compress_with_cache(device):
    """The rows that nsa_compress_with_cache writes: one row fills a window, the other does not."""
    lengths, slots = (144, 90), (2, 0)
    x, _, table = _paged(device, lengths)
    weight, cache = device.draw(32, KV_HEADS), device.draw(3, KV_HEADS, DIM)
    written = device.tensor(cache)
    sizes = {"compress_block_size": 32, "compress_stride": 16, "page_block_size": PAGE}
    given = (device.tensor(x), device.tensor(weight), slots, 32, 16, PAGE)
    result = mindspore_nsa.nsa_compress_with_cache(
        *given, block_table=device.ms.Tensor(table), actual_seq_len=lengths, cache=written
    )
    after = device.array(result)
    if not np.array_equal(after[:2], cache[:2]):
        raise AssertionError("slots of the cache that no window fills changed")
    named = {"input": x, "weight": weight, "slot_mapping": slots, "block_table": table}
    named |= {"actual_seq_len": lengths, "cache": cache}
    yield device.case(
        "NsaCompressWithCache", named, sizes, [np.stack([after[2], np.zeros_like(after[2])])]
    )


def nsa_compress_attention_infer(device):
    """The newest token of each row over its compressed tokens, and the blocks that it chooses."""
    key, value, table = _paged(device, WINDOWS)
    query = device.draw(2, HEADS, DIM)
    lists = {"actual_cmp_seq_kvlen": WINDOWS, "actual_sel_seq_kvlen": LENGTHS}

    def forward(q, k, v):
        return mindspore_nsa.nsa_compress_attention_infer(
            q, k, v, SCALE, HEADS, KV_HEADS, 64, 2, PAGE, 32, 16,
            block_table=device.ms.Tensor(table), **lists)  # fmt: skip

    attrs = {"scale_value": SCALE, "head_num": HEADS, "key_value_head_num": KV_HEADS}
    attrs |= {"select_block_size": 64, "select_block_count": 2, "page_block_size": PAGE}
    attrs |= {"compress_block_size": 32, "compress_stride": 16}
    named = {"query": query, "key": key, "value": value, "block_table": table, **lists}
    outputs = device.run(forward, (query, key, value))
    yield device.case("NsaCompressAttentionInfer", named, attrs, outputs)


def nsa_selected_attention_infer(device):
    """The newest token of each row over two blocks of 64 tokens."""
    key, value, table = _paged(device, LENGTHS)
    query = device.draw(2, HEADS, DIM)
    blocks = np.array([[[2, 0], [0, 1]], [[1, 0], [1, -1]]], np.int32)

    def forward(q, k, v):
        return mindspore_nsa.nsa_selected_attention_infer(
            q, k, v, device.ms.Tensor(blocks), SCALE, HEADS, KV_HEADS, 64, 2, PAGE, layout="TND",
            block_table=device.ms.Tensor(table), actual_seq_kvlen=LENGTHS)  # fmt: skip

    attrs = {"scale_value": SCALE, "head_num": HEADS, "key_value_head_num": KV_HEADS}
    attrs |= {"select_block_size": 64, "select_block_count": 2, "page_block_size": PAGE}
    named = {"query": query, "key": key, "value": value, "topk_indices": blocks}
    named |= {"block_table": table, "actual_seq_kvlen": LENGTHS}
    outputs = device.run(forward, (query, key, value))
    yield device.case("NsaSelectedAttentionInfer", named, {**attrs, "layout": "TND"}, outputs)


def nsa_decode(device):
    """The gated sum of the three branches; every block is chosen, so that no score can tie."""
    key_cmp, value_cmp, cmp_table = _paged(device, WINDOWS)
    key, value, table = _paged(device, LENGTHS)
    ring = (2, 64, KV_HEADS, DIM)
    gates = np.abs(device.draw(2, 3, HEADS))
    arrays = (
        *(device.draw(2, HEADS, DIM), key_cmp, value_cmp, key, value),
        *(device.draw(*ring), device.draw(*ring)),
    )

    def forward(q, *caches):
        return mindspore_nsa.nsa_decode(
            q, device.ms.Tensor(gates), *caches, SCALE, HEADS, 32, 16, 64, 3, 48,
            block_table=device.ms.Tensor(table), cmp_block_table=device.ms.Tensor(cmp_table),
            actual_seq_kvlen=LENGTHS)  # fmt: skip

    names = ("query", "key_cmp", "value_cmp", "key_slc", "value_slc", "key_win", "value_win")
    named = {**dict(zip(names, arrays)), "gates": gates, "block_table": table}
    named |= {"cmp_block_table": cmp_table, "actual_seq_kvlen": LENGTHS}
    attrs = {"scale_value": SCALE, "head_num": HEADS, "compress_block_size": 32}
    attrs |= {"compress_stride": 16, "select_block_size": 64, "select_block_count": 3}
    yield device.case("NsaDecode", named, {**attrs, "window_size": 48}, device.run(forward, arrays))


class PlainLayer(Plain):
    """The layer in textbook arithmetic: linear maps give the dtype, too."""

    def matmul(self, a, b):
        """The products of weights have two dimensions, those of heads three."""
        product = super().matmul(a, b)
        return self.output(product) if b.ndim == 2 else product


@dataclass
class Step:
    """A layer's tokens through its cache, judged as one output of the layer's definition."""

    dtype: str
    x: np.ndarray
    parameters: dict
    config: object

    op = "NsaCacheStep"

    def __str__(self):
        return f"NsaCacheStep through NativeSparseAttention, {self.dtype}"

    def compare(self, outputs):
        """Assert that the output [T, hidden] is right."""
        arguments, ends = (self.x, self.parameters, self.config), (len(self.x),)
        expected, plain = (
            reference.native_sparse_attention(*arguments, actual_seq_len=ends, **precision)
            for precision in ({}, {"precision": PlainLayer(self.dtype)})
        )
        check(str(self), outputs[0], expected, plain, self.dtype, nsa=True)


def nsa_cache_step(device):
    """A prompt of 61 tokens, three single tokens and a chunk; every block is chosen."""
    from mindspore_nsa.nn import NativeSparseAttention, NSAConfig

    config = NSAConfig(
        hidden_size=64, num_heads=HEADS, num_kv_heads=KV_HEADS, head_dim=32, value_head_dim=16,
        compress_block_size=32, compress_stride=16, select_block_size=32, select_block_count=4,
        window_size=24)  # fmt: skip
    layer, parameters = NativeSparseAttention(config), {}
    for parameter in layer.trainable_params():
        values = device.draw(*parameter.shape) * 0.25
        parameters[parameter.name] = values
        parameter.set_data(device.ms.Tensor(values).astype(parameter.dtype))
    if device.dtype != "float32":
        layer.to_float(getattr(device.ms, device.dtype))
    x, cache = device.draw(90, 64), layer.new_cache(1, 96, device.dtype)
    parts, begin = [], 0
    for end in (61, 62, 63, 64, 90):
        parts.append(device.array(layer(device.tensor(x[None, begin:end]), cache=cache))[0])
        begin = end
    rounded = {name: round_to(values, device.dtype) for name, values in parameters.items()}
    yield Step(device.dtype, x, rounded, config), [np.concatenate(parts)]
