"""Right calls of the native operators, to be spoiled one argument at a time."""

import copy
import re

import pytest

from mindspore_nsa import _native


class Call:
    """One call by argument name: inputs are (dtype, shape, values) or None, the rest attributes."""

    def __init__(self, op, inputs, attrs):
        self.op = op
        self.names = [spec["name"] for spec in _native.schema(op)["inputs"]]
        assert set(inputs) <= set(self.names)
        self.inputs = {name: inputs.get(name) for name in self.names}
        self.attrs = dict(attrs)

    def but(self, **changes):
        """A copy with some inputs and attributes replaced."""
        other = copy.deepcopy(self)
        for name, value in changes.items():
            (other.inputs if name in other.names else other.attrs)[name] = value
        return other

    def without(self, attr):
        other = copy.deepcopy(self)
        del other.attrs[attr]
        return other

    def shaped(self, name, shape):
        """A copy in which one input has another shape, its values dropped."""
        return self.but(**{name: (self.inputs[name][0], shape)})

    def typed(self, name, dtype):
        return self.but(**{name: (dtype, *self.inputs[name][1:])})

    def listed(self, name, values, dtype="int64"):
        return self.but(**{name: (dtype, (len(values),), tuple(values))})

    def blind(self):
        """A copy in which no list has values, as when a graph is compiled."""
        other = copy.deepcopy(self)
        for name, value in other.inputs.items():
            other.inputs[name] = value and value[:2]
        return other

    def infer(self, target="cpu"):
        return _native.infer(self.op, list(self.inputs.values()), self.attrs, target)

    def shapes(self, target="cpu"):
        return [shape for _, shape in self.infer(target)]

    def fails(self, error, *words, target="cpu"):
        """The call raises exactly `error`, naming the function first and the words in this order:
        the argument, what it must be, and what was got."""
        with pytest.raises((TypeError, ValueError)) as caught:
            self.infer(target)
        assert caught.type is error, caught.value
        text = str(caught.value)
        assert text.startswith(_native.schema(self.op)["function"] + ": "), text
        behind = 0
        for word in words:
            whole = re.compile(rf"(?<![\w.-]){re.escape(str(word))}(?![\w.])")
            found = whole.search(text, behind)
            assert found, f"{word!r} is not behind the words before it in: {text}"
            behind = found.end()


def ints(*values):
    return "int64", (len(values),), values


def tensor(*shape, dtype="float16"):
    return dtype, shape


def packed(t1, t2, n1, n2, d, dv, dtype="float16"):
    return {
        "query": (dtype, (t1, n1, d)),
        "key": (dtype, (t2, n2, d)),
        "value": (dtype, (t2, n2, dv)),
    }


def compress_calls():
    attrs = {"compress_block_size": 32, "compress_stride": 16}
    operands = {
        "input": tensor(272, 8, 128),
        "weight": tensor(32, 8),
        "actual_seq_len": ints(0, 128, 272),
    }
    yield "NsaCompress", Call("NsaCompress", operands, {**attrs, "num_windows": 15})
    grad = {"output_grad": tensor(15, 8, 128), **operands}
    yield "NsaCompressGrad", Call("NsaCompressGrad", grad, attrs)


def nsa_attention_calls():
    # Segments of 80 and 96 tokens: 4 and 5 windows of 32, 16 apart.
    attrs = {
        "scale_value": 0.125,
        "head_num": 8,
        "compress_block_size": 32,
        "compress_stride": 16,
        "select_block_size": 64,
        "select_block_count": 2,
        "causal": True,
        "init_blocks": 1,
        "local_blocks": 1,
        "importance": "cann",
    }
    inputs = {
        **packed(176, 9, 8, 2, 64, 48),
        "topk_mask": ("bool", (96, 2)),
        "atten_mask": ("uint8", (96, 5)),
        "actual_seq_qlen": ints(80, 176),
        "actual_cmp_seq_kvlen": ints(4, 9),
        "actual_sel_seq_kvlen": ints(2, 4),
        "q_offset": ints(0, 32),
    }
    # The second segment's queries end at position 128: two blocks of 64, as many as the first has.
    yield "NsaCompressAttention", Call("NsaCompressAttention", inputs, attrs)

    attrs = {
        "scale_value": 0.125,
        "head_num": 8,
        "select_block_size": 64,
        "select_block_count": 4,
        "causal": True,
    }
    inputs = {
        **packed(48, 300, 8, 2, 64, 48),
        "topk_indices": ("int32", (48, 2, 4)),
        "actual_seq_qlen": ints(16, 48),
        "actual_seq_kvlen": ints(100, 300),
        "q_offset": ints(84, 168),
    }
    yield "NsaSelectedAttention", Call("NsaSelectedAttention", inputs, attrs)
    inputs.update(
        attention_out=tensor(48, 8, 48),
        attention_out_grad=tensor(48, 8, 48),
        softmax_max=tensor(48, 8, 8, dtype="float32"),
        softmax_sum=tensor(48, 8, 8, dtype="float32"),
        softmax_sum_grad=tensor(48, 8, 8, dtype="float32"),
    )
    yield "NsaSelectedAttentionGrad", Call("NsaSelectedAttentionGrad", inputs, attrs)


def indexer_calls():
    """Segments of 16 and 32 queries at the ends of 100 and 200 tokens."""
    attrs = {
        "score": "max",
        "block_size": 16,
        "block_count": 4,
        "head_groups": 2,
        "scale": 0.125,
        "init_blocks": 1,
        "local_blocks": 2,
    }
    inputs = {
        "query": tensor(48, 8, 64),
        "key": tensor(300, 2, 64),
        "weights": ("float32", (48, 8)),
        "actual_seq_qlen": ints(16, 48),
        "actual_seq_kvlen": ints(100, 300),
        "q_offset": ints(84, 168),
    }
    yield "BlockIndexer", Call("BlockIndexer", inputs, attrs)
    # 100 and 200 tokens have 5 and 11 windows of 32, 16 apart.
    inputs = {
        **inputs,
        "key": tensor(16, 2, 64),
        "weights": None,
        "actual_seq_kvlen": ints(5, 16),
    }
    attrs = {**attrs, "score": "softmax_max", "compress_block_size": 32, "compress_stride": 16}
    yield "BlockIndexer compressed", Call("BlockIndexer", inputs, attrs)


def token_calls():
    """Batch elements of 24 and 30 queries and 40 and 25 keys, within the limits of Ascend."""
    inputs = {
        "query": tensor(2, 30, 8, 128),
        "key": tensor(2, 40, 1, 128),
        "weights": ("float32", (2, 30, 8)),
        "actual_seq_lengths_query": ints(24, 30),
        "actual_seq_lengths_key": ints(40, 25),
    }
    layouts = {"layout_query": "BSND", "layout_key": "BSND"}
    attrs = {"sparse_count": 16, "sparse_mode": 3, "return_value": True, "compress_ratio": 1}
    residual = {"compress_residual": ints(0, 0)}
    yield (
        "LightningIndexer",
        Call("LightningIndexer", {**inputs, **residual}, {**attrs, **layouts}),
    )
    grad = {
        **inputs,
        "sparse_values_grad": tensor(2, 30, 1, 16),
        "sparse_indices": ("int32", (2, 30, 1, 16)),
    }
    yield "LightningIndexerGrad", Call("LightningIndexerGrad", grad, layouts)

    inputs = {
        "query": tensor(2, 30, 8, 512),
        "key": tensor(2, 40, 1, 512),
        "value": tensor(2, 40, 1, 512),
        "sparse_indices": ("int32", (2, 30, 1, 16)),
        "query_rope": tensor(2, 30, 8, 64),
        "key_rope": tensor(2, 40, 1, 64),
        "sinks": ("float32", (8,)),
        "actual_seq_lengths_query": ints(24, 30),
        "actual_seq_lengths_kv": ints(40, 25),
    }
    attrs = {
        "scale_value": 0.125,
        "sparse_block_size": 4,
        "sparse_mode": 3,
        "attention_mode": 2,
        "return_softmax_lse": True,
        "layout_query": "BSND",
        "layout_kv": "BSND",
    }
    yield "SparseFlashAttention", Call("SparseFlashAttention", inputs, attrs)
    outputs = {name: tensor(2, 30, 8, 512) for name in ("attention_out", "attention_out_grad")}
    outputs["softmax_sum_grad"] = ("float32", (2, 1, 30, 8))
    yield (
        "SparseFlashAttentionGrad",
        Call("SparseFlashAttentionGrad", {**inputs, **outputs}, attrs),
    )
    yield from kl_calls()


def kl_calls():
    """Two heads of keys, which teach one of an indexer."""
    statistics = ("float32", (2, 2, 30, 4))
    inputs = {
        "query": tensor(2, 30, 8, 64),
        "key": tensor(2, 40, 2, 64),
        "query_index": tensor(2, 30, 4, 32),
        "key_index": tensor(2, 40, 1, 32),
        "weights": ("float32", (2, 30, 4)),
        "sparse_indices": ("int32", (2, 30, 1, 16)),
        "softmax_max": statistics,
        "softmax_sum": statistics,
        "query_rope": tensor(2, 30, 8, 16),
        "key_rope": tensor(2, 40, 2, 16),
        "actual_seq_qlen": ints(24, 30),
        "actual_seq_klen": ints(40, 25),
    }
    attrs = {"scale_value": 0.125, "sparse_mode": 3, "layout": "BSND"}
    op = "SparseLightningIndexerGradKLLoss"
    yield op, Call(op, inputs, attrs)
    op = "DenseLightningIndexerGradKLLoss"
    of_indexer = ("float32", (2, 1, 30))
    statistics = {"softmax_max_index": of_indexer, "softmax_sum_index": of_indexer}
    dense = {**inputs, **statistics}
    yield op, Call(op, {n: dense[n] for n in names(op)}, attrs)
    op = "DenseLightningIndexerSoftmaxLse"
    del attrs["scale_value"]
    yield op, Call(op, {n: inputs[n] for n in names(op)}, attrs)


def names(op):
    return [spec["name"] for spec in _native.schema(op)["inputs"]]


def flash_calls():
    attrs = {
        "head_num": 4,
        "keep_prob": 0.8,
        "scalar_value": 0.125,
        "pre_tokens": 2147483647,
        "next_tokens": 2147483647,
        "pse_type": 1,
    }
    batched = {
        "query": tensor(3, 4, 24, 64),
        "key": tensor(3, 2, 40, 64),
        "value": tensor(3, 2, 40, 48),
        "real_shift": tensor(3, 4, 24, 40),
        "drop_mask": ("uint8", (1440,)),
        "attn_mask": ("bool", (3, 1, 24, 40)),
        "prefix": ints(16, 20, 40),
        "sink": ("float32", (4,)),
    }
    batched_attrs = {**attrs, "input_layout": "BNSD", "sparse_mode": 5}
    # Segments of (20, 30) and (28, 50) queries and keys: 600 + 1400 scores a head.
    ragged = {
        **packed(48, 80, 4, 2, 64, 48),
        "real_shift": tensor(8000),
        "drop_mask": ("uint8", (1000,)),
        "attn_mask": ("uint8", (28, 50)),
        "actual_seq_qlen": ints(20, 48),
        "actual_seq_kvlen": ints(30, 80),
        "sink": ("float32", (4,)),
    }
    ragged_attrs = {**attrs, "input_layout": "TND", "sparse_mode": 1}
    yield "FlashAttentionScore", Call("FlashAttentionScore", batched, batched_attrs)
    yield "FlashAttentionScore TND", Call("FlashAttentionScore", ragged, ragged_attrs)

    def grad(inputs, out, softmax):
        rows = ("float32", softmax)
        out = tensor(*out)
        saved = dict.fromkeys(("softmax_max", "softmax_sum", "softmax_sum_grad"), rows)
        return {**inputs, "dy": out, "attention_in": out, **saved}

    yield (
        "FlashAttentionScoreGrad",
        Call(
            "FlashAttentionScoreGrad",
            grad(batched, (3, 4, 24, 48), (3, 4, 24, 8)),
            {**batched_attrs, "pse_grad": True},
        ),
    )
    yield (
        "FlashAttentionScoreGrad TND",
        Call(
            "FlashAttentionScoreGrad",
            grad(ragged, (48, 4, 48), (48, 4, 8)),
            {**ragged_attrs, "pse_grad": True},
        ),
    )
    compressed = {name: ragged[name] for name in ("query", "key", "value")}
    compressed.update(
        attn_mask=("bool", (30, 60)),
        actual_seq_qlen=ints(20, 48),
        actual_seq_kvlen=ints(30, 77),
        q_offset=ints(0, 7),
    )
    yield (
        "FlashAttentionScoreGrad compressed",
        Call(
            "FlashAttentionScoreGrad",
            grad(compressed, (48, 4, 48), (48, 4, 8)),
            {
                "head_num": 4,
                "scalar_value": 0.125,
                "input_layout": "TND",
                "sparse_mode": 1,
                "compress_block_size": 32,
                "compress_stride": 16,
            },
        ),
    )


def decoding_calls():
    """Two rows of 100 and 70 tokens: 5 and 3 windows of 32 tokens, 16 apart."""
    attrs = {"scale_value": 0.125, "head_num": 8}
    paged = {"key": tensor(9, 16, 2, 64), "value": tensor(9, 16, 2, 48)}
    table = ("int32", (2, 7))
    selection = {
        "compress_block_size": 32,
        "compress_stride": 16,
        "select_block_size": 64,
        "select_block_count": 2,
        "init_blocks": 1,
        "local_blocks": 1,
        "importance": "cann",
    }
    rows = {
        "query": tensor(5, 8, 64),
        "actual_seq_qlen": ints(2, 3),
    }
    yield (
        "NsaCompressWithCache",
        Call(
            "NsaCompressWithCache",
            {
                "input": tensor(9, 16, 2, 64),
                "weight": tensor(32, 2),
                "slot_mapping": ints(3, 1),
                "block_table": table,
                "actual_seq_len": ints(96, 70),
                "cache": tensor(4, 2, 64),
            },
            {"compress_block_size": 32, "compress_stride": 16, "page_block_size": 16},
        ),
    )
    yield (
        "NsaCompressAttentionInfer",
        Call(
            "NsaCompressAttentionInfer",
            {
                **rows,
                **paged,
                "block_table": ("int32", (2, 1)),
                "actual_cmp_seq_kvlen": ints(5, 3),
                "actual_sel_seq_kvlen": ints(100, 70),
            },
            {
                **attrs,
                **selection,
                "key_value_head_num": 2,
                "page_block_size": 16,
                "layout": "TND",
            },
        ),
    )
    yield (
        "NsaSelectedAttentionInfer",
        Call(
            "NsaSelectedAttentionInfer",
            {
                **rows,
                **paged,
                "topk_indices": ("int32", (5, 2, 2)),
                "block_table": table,
                "actual_seq_kvlen": ints(100, 70),
            },
            {
                **attrs,
                "key_value_head_num": 2,
                "select_block_size": 64,
                "select_block_count": 2,
                "page_block_size": 16,
                "layout": "TND",
            },
        ),
    )
    yield (
        "NsaDecode",
        Call(
            "NsaDecode",
            {
                **rows,
                "gates": ("float32", (5, 3, 8)),
                "key_cmp": tensor(4, 8, 2, 64),
                "value_cmp": tensor(4, 8, 2, 48),
                "key_slc": tensor(9, 16, 2, 64),
                "value_slc": tensor(9, 16, 2, 48),
                "key_win": tensor(2, 40, 2, 64),
                "value_win": tensor(2, 40, 2, 48),
                "block_table": table,
                "cmp_block_table": ("int32", (2, 1)),
                "actual_seq_kvlen": ints(100, 70),
            },
            {**attrs, **selection, "window_size": 32, "layout": "TND", "cache_layout": "BSND"},
        ),
    )


# Operators whose lists are lengths of rows, not prefix sums.
DECODING = {call.op for _, call in decoding_calls()}


def dropout_calls():
    seed = {"seed": ("int64", (1,))}
    yield "NsaDropoutMask", Call("NsaDropoutMask", seed, {"keep_prob": 0.9, "numel": 1001})


CALLS = dict(
    [
        *compress_calls(),
        *nsa_attention_calls(),
        *indexer_calls(),
        *token_calls(),
        *flash_calls(),
        *decoding_calls(),
        *dropout_calls(),
    ],
)


@pytest.fixture
def good():
    """A right call by its name, such as "FlashAttentionScore TND"."""
    return lambda name: copy.deepcopy(CALLS[name])


def inputs_where(keep):
    return [(n, i) for n, c in CALLS.items() for i in c.names if c.inputs[i] and keep(c, i)]


def attrs_where(keep):
    schemas = [(name, _native.schema(call.op)) for name, call in CALLS.items()]
    return [(n, attr["name"]) for n, s in schemas for attr in s["attrs"] if keep(attr)]


PREFIX_SUMS = {
    "actual_seq_len",
    "actual_seq_qlen",
    "actual_seq_kvlen",
    "actual_cmp_seq_kvlen",
    "actual_sel_seq_kvlen",
}

# Values that a test is repeated for, by the name of its second argument; the first is call_name.
AXES = {
    "input_name": inputs_where(lambda call, name: True),
    "ranked_name": inputs_where(lambda call, name: name != "drop_mask"),
    "float_name": inputs_where(lambda call, name: call.inputs[name][0] == "float16"),
    "list_name": inputs_where(lambda call, name: len(call.inputs[name]) == 3),
    "sums_name": inputs_where(
        # Where batches are not packed, those of an indexer are lengths.
        lambda call, name: (
            name in PREFIX_SUMS and call.op not in DECODING and "LightningIndexer" not in call.op
        )
    ),
    "attr_name": attrs_where(lambda attr: True),
    "required_attr": attrs_where(lambda attr: attr["required"]),
    "optional_attr": attrs_where(lambda attr: not attr["required"]),
}


def pytest_generate_tests(metafunc):
    """Parametrizes over every right call, and over the inputs or attributes of each."""
    if "call_name" not in metafunc.fixturenames:
        return
    for name, pairs in AXES.items():
        if name in metafunc.fixturenames:
            metafunc.parametrize(f"call_name, {name}", pairs)
            return
    metafunc.parametrize("call_name", list(CALLS))
