"""Sources of the example programs, and what they have to print."""

import numpy as np
import pytest

from mindspore_nsa.reference import (
    flash_attention_score,
    flash_attention_score_grad,
    nsa_compress,
    nsa_compress_attention,
    nsa_compress_attention_infer,
    nsa_compress_grad,
    nsa_compress_with_cache,
    nsa_decode,
    nsa_selected_attention,
    nsa_selected_attention_grad,
    nsa_selected_attention_infer,
)

from .programs import ROOT

SEEDS = ROOT.parent / "shared" / "spec" / "seeds"
# The document is CANN's and not part of this repository; our own programs need no document.
documented = pytest.mark.skipif(
    not SEEDS.is_dir(), reason=f"CANN's document of aclnnNsaCompressGrad is not in {SEEDS}"
)


def _pattern(shape, step, modulus):
    """Compute Pattern of acl_program.h."""
    numbers = np.arange(np.prod(shape)) * step % modulus - modulus // 2
    return (numbers / 8).astype(np.float16).reshape(shape)


def _outputs(text):
    """{name: values} of what Print wrote."""
    lines = dict(line.split(":") for line in text.splitlines())
    return {name: np.array(values.split(), np.float64) for name, values in lines.items()}


QUERY = _pattern((1, 2, 32, 16), 7, 19)
KEY, VALUE = _pattern((1, 1, 48, 16), 5, 17), _pattern((1, 1, 48, 16), 3, 13)
CAUSAL = {
    "attn_mask": np.triu(np.ones((2048, 2048), np.uint8), 1),
    "scalar_value": 0.25,
    "input_layout": "BNSD",
    "sparse_mode": 3,
}
INPUT, WEIGHT, SEGMENTS = _pattern((80, 2, 16), 7, 19), _pattern((32, 2), 5, 11), [32, 80]


def _close(ours, reference, error=2.0**-10):
    assert ours.size == reference.size
    scale = np.abs(reference).max()
    assert np.abs(ours - reference.ravel()).max() <= scale * error


def check_nsa_compress(text):
    """Check the output of aclnn_nsa_compress.cpp."""
    expected = nsa_compress(INPUT, WEIGHT, 32, 16, actual_seq_len=SEGMENTS)
    _close(_outputs(text)["output"], expected)


def check_nsa_compress_with_cache(text):
    """Check the output of aclnn_nsa_compress_with_cache.cpp."""
    expected = nsa_compress_with_cache(
        *(INPUT, WEIGHT, (1, 3), 32, 16, 0), actual_seq_len=(32, 48), cache=np.zeros((5, 2, 16))
    )
    _close(_outputs(text)["cache"], expected)


def check_nsa_compress_grad(text):
    """Check the output of aclnn_nsa_compress_grad.cpp."""
    ours = _outputs(text)
    output_grad = _pattern((3, 2, 16), 3, 13)
    input_grad, weight_grad = nsa_compress_grad(
        output_grad, INPUT, WEIGHT, 32, 16, actual_seq_len=SEGMENTS
    )
    _close(ours["inputGrad"], input_grad)
    _close(ours["weightGrad"], weight_grad)


def check_nsa_compress_attention(text):
    """Check the output of aclnn_nsa_compress_attention.cpp."""
    ours = _outputs(text)
    query = _pattern((96, 4, 16), 7, 19)
    key, value = _pattern((4, 2, 16), 5, 17), _pattern((4, 2, 16), 3, 13)
    lists = {"actual_seq_qlen": [32, 96], "actual_cmp_seq_kvlen": [1, 4]}
    rule = {"causal": True, "init_blocks": 1, "importance": "overlap"}
    out, indices, row_max, row_sum = nsa_compress_attention(
        query, key, value, 0.25, 4, 32, 16, 32, 2, **lists, **rule
    )
    assert ours["topkIndices"].tolist() == indices.ravel().tolist()
    _close(ours["softmaxMax"], row_max)
    _close(ours["softmaxSum"], row_sum)
    _close(ours["attentionOut"], out)


def check_flash_attention_score(text):
    """Check the output of aclnn_flash_attention_score.cpp."""
    ours = _outputs(text)
    out, row_max, row_sum = flash_attention_score(QUERY, KEY, VALUE, 2, **CAUSAL)
    _close(ours["softmaxMax"], row_max)
    _close(ours["softmaxSum"], row_sum)
    _close(ours["attentionOut"], out)


def check_flash_attention_score_grad(text):
    """Check the output of aclnn_flash_attention_score_grad.cpp."""
    ours = _outputs(text)
    out, row_max, row_sum = flash_attention_score(QUERY, KEY, VALUE, 2, **CAUSAL)
    dy = _pattern(QUERY.shape, 11, 23)
    gradients = flash_attention_score_grad(
        QUERY, KEY, VALUE, dy, 2, row_max, row_sum, out, **CAUSAL
    )
    # The textbook formula with P and dS rounded to float16 is off by 3.7e-4, 6.3e-4 and 10e-4: the
    # terms of dv add up to 9 times its largest element, so that roundings of P weigh more there.
    # Twice that is allowed, or a rounding of 1.
    for name, error in {"dq": 2.0**-10, "dk": 2 * 6.27e-4, "dv": 2.0**-9}.items():
        _close(ours[name], getattr(gradients, name), error=error)


def _selected():
    """Arguments of aclnn_nsa_selected_attention.cpp: tensors, and the rest."""
    query, key = _pattern((48, 4, 32), 7, 19), _pattern((48, 1, 32), 5, 17)
    indices = np.tile(np.arange(2, dtype=np.int32), (48, 1, 1))
    tensors = (query, key, _pattern((48, 1, 16), 3, 13), indices)
    return tensors, {"causal": True, "actual_seq_qlen": [24, 48], "actual_seq_kvlen": [24, 48]}


def check_nsa_compress_attention_infer(text):
    """Check the output of aclnn_nsa_compress_attention_infer.cpp."""
    cache = (6, 16, 2, 32)
    out, blocks = nsa_compress_attention_infer(
        *(_pattern((2, 1, 4, 32), 7, 19), _pattern(cache, 5, 17), _pattern(cache, 3, 13)),
        *(0.25, 4, 2, 64, 4, 16, 32, 16),
        layout="BSND",
        block_table=[[5, 3, 0], [1, 4, 0]],
        actual_cmp_seq_kvlen=(40, 19),
        actual_sel_seq_kvlen=(656, 335),
        init_blocks=1,
        local_blocks=1,
    )
    ours = _outputs(text)
    _close(ours["attentionOut"], out)
    assert np.array_equal(ours["topkIndices"], blocks.ravel())


def check_nsa_decode(text):
    """Check the output of aclnn_nsa_decode.cpp."""
    shapes = ((2, 11), (12, 16), (2, 32))
    numbers = ((5, 17), (3, 13), (7, 17), (5, 13), (3, 17), (7, 13))
    caches = [_pattern((*shapes[i // 2], 2, 32), *n) for i, n in enumerate(numbers)]
    expected = nsa_decode(
        *(_pattern((2, 1, 4, 32), 7, 19), _pattern((2, 1, 3, 4), 3, 7), *caches, 0.25, 4),
        *(16, 8, 16, 3, 24),
        layout="BSND",
        block_table=[[11, 3, 0, 7, 5, 2], [1, 4, 6, 8, 0, 0]],
        actual_seq_kvlen=(96, 50),
        init_blocks=1,
        local_blocks=1,
    )
    _close(_outputs(text)["attentionOut"], expected)


def check_nsa_cache_step(text):
    """Check the output of aclnn_nsa_cache_step.cpp."""
    ours = _outputs(text)
    angles = np.arange(3)[:, None, None] * 10000.0 ** (-np.arange(8) / 8)

    def turned(x):
        a, b = x[..., :8].astype(np.float64), x[..., 8:].astype(np.float64)
        cos, sin = np.cos(angles), np.sin(angles)
        return np.concatenate((a * cos - b * sin, b * cos + a * sin), -1)

    query, key = turned(_pattern((2, 3, 4, 16), 7, 19)), turned(_pattern((2, 3, 2, 16), 5, 17))
    value = _pattern((2, 3, 2, 16), 3, 13)
    causal = {**CAUSAL, "input_layout": "BSND"}
    _close(ours["attentionOut"], flash_attention_score(query, key, value, 4, **causal)[0], 2.0**-8)
    # The layer's number, the length, the most tokens.
    assert ours["state"].tolist() == 2 * [*(11 * [0]), 1, 3, 3]


def check_nsa_selected_attention_infer(text):
    """Check the output of aclnn_nsa_selected_attention_infer.cpp."""
    cache = (12, 16, 2, 32)
    expected = nsa_selected_attention_infer(
        *(_pattern((2, 1, 4, 32), 7, 19), _pattern(cache, 5, 17), _pattern(cache, 3, 13)),
        *(np.array([2, 0, 1, 2, 1, 0, 0, -1], np.int32).reshape(2, 1, 2, 2), 0.25, 4, 2, 32, 2, 16),
        block_table=[[11, 3, 0, 7, 5, 2], [1, 4, 6, 8, 0, 0]],
        actual_seq_kvlen=(96, 50),
    )
    _close(_outputs(text)["attentionOut"], expected)


def check_nsa_selected_attention(text):
    """Check the output of aclnn_nsa_selected_attention.cpp."""
    ours = _outputs(text)
    tensors, rest = _selected()
    out, row_max, row_sum = nsa_selected_attention(*tensors, 0.25, 4, 16, 2, **rest)
    _close(ours["softmaxMax"], row_max)
    _close(ours["softmaxSum"], row_sum)
    _close(ours["attentionOut"], out)


def check_nsa_selected_attention_grad(text):
    """Check the output of aclnn_nsa_selected_attention_grad.cpp."""
    ours = _outputs(text)
    (query, key, value, indices), rest = _selected()
    sizes = (0.25, 4, 16, 2)
    saved = nsa_selected_attention(query, key, value, indices, *sizes, **rest)
    gradients = nsa_selected_attention_grad(
        *(query, key, value, saved[0], _pattern((48, 4, 16), 11, 23), *saved[1:], indices, *sizes),
        **rest,
    )
    for name, expected in zip(("dq", "dk", "dv"), gradients, strict=True):
        _close(ours[name], expected, error=2.0**-9)


def documented_example():
    """The one C++ program in the document of aclnnNsaCompressGrad."""
    (text,) = (
        path.read_text()
        for path in SEEDS.glob("004*.txt")
        if "aclnnNsaCompressGradGetWorkspaceSize" in path.read_text()
    )
    blocks = [block.partition("```")[0] for block in text.split("```c++")[1:]]
    (program,) = (block for block in blocks if "int main()" in block)
    return program


def check_documented_example(text):
    """It copies float bytes into float16 tensors: what counts is what those hold."""
    lines = text.splitlines()
    ours = np.array([float(line.rpartition(" ")[2]) for line in lines], np.float32)
    shape, heads = (272, 64, 128), 64

    def as_half(count):
        return np.ones(count, np.float32).view(np.float16)[:count]

    input_grad, _ = nsa_compress_grad(
        as_half(15 * heads * 128).reshape(15, heads, 128),
        as_half(np.prod(shape)).reshape(shape),
        as_half(32 * heads).reshape(32, heads),
        32,
        16,
        actual_seq_len=[0, 128, 272],
    )
    # The second half of the memory, where the example's float zeros were, is not the tensor's.
    halves = ours.view(np.float16)
    assert halves.size == 2 * input_grad.size
    assert np.array_equal(halves[: input_grad.size], input_grad.ravel().astype(np.float16))
    assert not halves[input_grad.size :].any()
    assert input_grad.any()
