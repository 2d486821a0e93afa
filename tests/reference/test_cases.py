"""The generator of cases is seeded and covers what it should; `compare` finds planted faults."""

from collections import Counter

import numpy as np
import pytest

from mindspore_nsa.testing.dtypes import DTYPES, decode, encode
from tests.common.cases import (
    GENERATORS,
    INPUTS,
    OUTPUTS,
    Case,
    compare,
    make_case,
    odd_size_cases,
    output_dtypes,
    parity_cases,
    run_plain,
    run_reference,
)


def in_native_form(case, outputs):
    """Outputs as the binding would return them."""
    return [encode(x, dtype) for x, dtype in zip(outputs, output_dtypes(case))]


def plain_outputs(case):
    return in_native_form(case, run_plain(case))


def test_a_seed_fixes_the_case():
    for seed in range(20):
        first, second = make_case(seed), make_case(seed)
        assert str(first) == str(second) and first.attrs == second.attrs
        for x, y in zip(first.inputs, second.inputs):
            assert (x is None) == (y is None)
            if x is not None:
                np.testing.assert_array_equal(decode(x), decode(y))


@pytest.mark.parametrize("op", GENERATORS)
def test_plain_outputs_pass_and_are_finite(op):
    for seed in range(40):
        case = make_case(seed, op)
        assert case.op == op and len(case.inputs) == len(INPUTS[op])
        for name, x in zip(OUTPUTS[op], run_reference(case), strict=True):
            numbers = x[x != -np.inf] if name == "sparse_values" else x  # beside -1
            assert np.isfinite(numbers).all(), str(case)
        compare(case, plain_outputs(case))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", [op for op in GENERATORS if op != "NsaDropoutMask"])
def test_planted_faults_are_found(op, dtype):
    """Every output in turn: its largest element off by a tenth, a NaN, a wrong shape, dtype."""
    for place, name in enumerate(OUTPUTS[op]):
        if name in ("topk_indices", "sparse_indices"):
            continue
        case = next(case for seed in range(200) for case in [make_case(seed, op, dtype)]
                    if _is_judgeable(run_reference(case)[place], name))  # fmt: skip
        right = plain_outputs(case)
        ref = run_reference(case)[place]
        usable = np.where(np.abs(ref) < 1e30, np.abs(ref), 0)
        at = np.unravel_index(usable.argmax(), ref.shape)
        row = at[:-1] if name.startswith("softmax") else at  # all lanes of a row alike
        for wrong in (ref[at] * 1.1, np.nan):
            faulty = decode(right[place]).copy()
            faulty[row] = wrong
            _expect_failure(case, right, place, encode(faulty, output_dtypes(case)[place]))
        values = decode(right[place])
        _expect_failure(case, right, place, encode(values[:-1], output_dtypes(case)[place]))
        _expect_failure(case, right, place, values.astype(np.float64))


def _is_judgeable(ref, name):
    """Large enough, and not a placeholder or rounding noise, to plant a fault in."""
    usable = np.abs(ref[np.abs(ref) < 1e30])
    return usable.size > {"dsink": 1, "loss": 0}.get(name, 8) and usable.max() > 1e-2


def _expect_failure(case, right, place, wrong):
    outputs = list(right)
    outputs[place] = wrong
    with pytest.raises(AssertionError, match=OUTPUTS[case.op][place]):
        compare(case, outputs)


def test_wrong_topk_indices_are_found():
    found = 0
    for seed in range(30):
        case = make_case(seed, "NsaCompressAttention")
        right = plain_outputs(case)
        indices = right[1].copy()
        if not len(indices) or indices[-1, 0, 0] < 0:
            continue
        indices[-1, 0, 0] = 12345
        _expect_failure(case, right, 1, indices)
        found += 1
    assert found > 10


def test_coverage_of_the_generator():
    cases = [make_case(seed) for seed in range(1500)]
    assert set(Counter(case.op for case in cases)) == set(GENERATORS)
    flash = [case for case in cases if case.op.startswith("FlashAttentionScore")]
    for values in (
        {case.dtype for case in cases} == set(DTYPES),
        {c.attrs["input_layout"] for c in flash} == {"BSH", "SBH", "BSND", "BNSD", "TND"},
        {c.attrs["sparse_mode"] for c in flash} == set(range(9)),
        {c.attrs["pse_type"] for c in flash} == set(range(4)),
    ):
        assert values
    for name in ("real_shift", "drop_mask", "attn_mask", "prefix", "sink"):
        for op in ("FlashAttentionScore", "FlashAttentionScoreGrad"):
            given = [c.named()[name] is not None for c in flash if c.op == op]
            assert any(given) and not all(given), (op, name)
    alibi = [c for c in flash if c.named()["real_shift"] is not None
             and decode(c.named()["real_shift"]).ndim == 4
             and decode(c.named()["real_shift"]).shape[2] == 1024]  # fmt: skip
    assert alibi
    grads = [c for c in flash if c.op == "FlashAttentionScoreGrad"]
    assert any(c.attrs["compress_block_size"] for c in grads)
    assert any(c.attrs["pse_grad"] for c in grads)
    for op, name in (("NsaCompressAttention", "importance"), ("NsaCompressAttention", "causal"),
                     ("NsaSelectedAttention", "causal"),
                     ("NsaSelectedAttentionGrad", "causal")):  # fmt: skip
        assert len({c.attrs[name] for c in cases if c.op == op}) == 2, (op, name)
    lists = [x for c in cases for n, x in c.named().items()
             if x is not None and n.startswith("actual_seq")]  # fmt: skip
    assert {x.dtype.name for x in lists} == {"int32", "int64"}
    assert any(x[0] == 0 for x in lists) and any((np.diff(x) == 0).any() for x in lists)
    assert any(len(x) > 20 for x in lists)
    selected = [c for c in cases if c.op == "NsaSelectedAttention"]
    assert any((c.named()["topk_indices"] == -1).all(axis=-1).any() for c in selected)
    assert any((c.named()["topk_indices"] > 10**6).any() for c in selected)


@pytest.mark.parametrize("name", parity_cases())
def test_parity_cases_can_be_built(name):
    case = parity_cases()[name]()
    assert len(case.inputs) == len(INPUTS[case.op]) and case.name in name


def test_shapes_of_the_public_examples():
    expected = {
        "compress single segment float16": (2, 4, 32),
        "compress 48 segments float16": (288, 4, 64),
        "compress short segments l=16 bfloat16": (3, 32, 16),
        "compress short segments l=32 bfloat16": (0, 32, 16),
        "compress docstring float16": (7, 8, 128),
        "compress_grad [0, 128, 272] bfloat16": (272, 64, 128),
        "selected one query bfloat16": (1, 1, 128),
        "selected two segments float16": (256, 16, 128),
        "compress_attention docstring float16": (256, 8, 128),
        "flash TND alibi dropout bfloat16": (81, 2, 192),
        "flash BSH more queries float16": (3, 128, 128),
    }
    for name, shape in expected.items():
        assert run_reference(parity_cases()[name]())[0].shape == shape, name


def test_plain_passes_odd_sizes():
    for name, build in odd_size_cases().items():
        if "1025" not in name:
            case = build()
            compare(case, plain_outputs(case))


def test_wrong_picks_are_found():
    """Another token, one twice, one missing, two in the wrong order, one that is not seen."""
    rng = np.random.default_rng(0)
    query, key = (rng.standard_normal((1, n, 1, 8), np.float32) for n in (4, 20))
    attrs = {"sparse_count": 5, "sparse_mode": 3, "return_value": 1}
    case = Case.of("LightningIndexer", {"query": query, "key": key}, attrs, "float32")
    right = plain_outputs(case)
    compare(case, right)
    picks = right[0][0, 0, 0]
    other = next(token for token in range(17) if token not in picks)
    for wrong in (
        [*picks[:4], other],
        [*picks[:4], picks[0]],
        [*picks[:4], -1],
        [*picks[:3], picks[4], picks[3]],
        [*picks[:4], 17],
        [*picks[:4], 20],
    ):
        faulty = right[0].copy()
        faulty[0, 0, 0] = wrong
        if np.array_equal(faulty, right[0]):
            continue
        with pytest.raises(AssertionError):
            compare(case, [faulty, right[1]])
