"""Values near the largest float32: sums of them leave its range, the output does not."""

import numpy as np
import pytest

from mindspore_nsa import _native
from mindspore_nsa.testing.case import ORDERS, run_plain, run_reference
from mindspore_nsa.testing.dtypes import ULP, decode
from mindspore_nsa.testing.tolerance import error
from tests.common.draw import Draw
from tests.common.flash_cases import flash_attention_score
from tests.common.indexer_cases import sparse_flash_attention
from tests.common.large_values import with_large_values
from tests.common.nsa_cases import nsa_compress_attention, nsa_selected_attention

from .sweep import instruction_set

OPERATORS = {
    "flash": flash_attention_score,
    "selected": nsa_selected_attention,
    "compressed": nsa_compress_attention,
    "sparse": sparse_flash_attention,
}


def plain_errors(case):
    """Expected outputs, from the plain implementation with values small enough to add up."""
    small = with_large_values(case, 3e38 * 2.0**-20)
    expected = run_reference(small)[0]
    return (error(run_plain(small, order)[0], expected) for order in range(ORDERS))


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_outputs_are_finite(name, dtype):
    seen = 0
    isas = _native.available_isas()
    for seed in range(40 * len(isas)):
        case = OPERATORS[name](Draw([seed, 77], dtype))
        drops = case.named().get("drop_mask") is not None and case.attrs["keep_prob"] < 1
        if drops or max(np.shape(decode(case.named()["query"]))) > 120:
            continue
        case = with_large_values(case)
        with np.errstate(over="ignore"):
            expected = run_reference(case)[0]
        if not np.isfinite(expected).all() or not expected.any():
            continue
        with instruction_set(isas[seed % len(isas)]):
            out = decode(_native.run(case.op, case.inputs, case.attrs)[0]).astype(np.float64)
        assert np.isfinite(out).all(), (seed, isas[seed % len(isas)], case)
        limit, ours = max(1e-5, ULP[dtype]), error(out, expected)
        # No more orders are tried than it takes.
        right = ours <= limit or any(ours <= 2 * plain for plain in plain_errors(case))
        assert right, (ours, seed, isas[seed % len(isas)], case)
        seen += 1
    assert seen >= 20
