"""One wrong row beside louder ones: on every target the tensor's error hides it, the row's own does
not."""

import numpy as np
import pytest

from mindspore_nsa import _native
from mindspore_nsa.testing import case as judge
from mindspore_nsa.testing import tolerance
from mindspore_nsa.testing.dtypes import DTYPES, decode, encode
from tests.common.cases import OUTPUTS, Case, compare
from tests.common.draw import Draw
from tests.common.flash_cases import flash_attention_score_grad_of

# The first segment's values, or gradients of outputs, are large beside the second one's.
LOUD, QUIET = 2.0**6, {"float32": 2.0**-24, "float16": 2.0**-12, "bfloat16": 2.0**-9}
ENDS_Q, ENDS_KV = [8, 16], [600, 616]
N1, N2, D, DV = 4, 2, 32, 16


def _loud_and_quiet(x, end, dtype):
    x[:end] *= LOUD
    x[end:] *= QUIET[dtype]


def _forward(dtype, values=True):
    rng = np.random.default_rng(0)
    query, key, value = (
        rng.standard_normal(shape) for shape in ((16, N1, D), (616, N2, D), (616, N2, DV))
    )
    if values:
        _loud_and_quiet(value, ENDS_KV[0], dtype)
    inputs = dict(zip(("query", "key", "value"), (encode(x, dtype) for x in (query, key, value))))
    lists = {"actual_seq_qlen": ENDS_Q, "actual_seq_kvlen": ENDS_KV}
    inputs.update({name: np.array(x, np.int64) for name, x in lists.items()})
    attrs = {
        **{"head_num": N1, "input_layout": "TND", "scalar_value": 0.02, "keep_prob": 1.0},
        **{"pre_tokens": 2147483647, "next_tokens": 2147483647, "sparse_mode": 3, "pse_type": 1},
    }
    return Case.of("FlashAttentionScore", inputs, attrs, dtype)


def _gradient(dtype):
    gradient = flash_attention_score_grad_of(_forward(dtype, values=False), Draw(0, dtype))
    place = judge.INPUTS[gradient.op].index("dy")
    dy = decode(gradient.inputs[place]).copy()
    _loud_and_quiet(dy, ENDS_Q[0], dtype)
    gradient.inputs[place] = encode(dy, dtype)
    return gradient


# Rows of the second segment.
FAULTS = {
    "a query's output is lost": (_forward, "attention_out", 12),
    "a sum is off": (_forward, "softmax_sum", 9),
    "a query's gradient is lost": (_gradient, "dq", 15),
    "a key's gradient is lost": (_gradient, "dk", 605),
    "a value's gradient is lost": (_gradient, "dv", 610),
}


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize(
    "target, dtype",
    [
        *(("cpu", dtype) for dtype in DTYPES),
        ("ascend_twin", "float16"),
        ("ascend_twin", "bfloat16"),
    ],
)
def test_a_wrong_row_is_found(target, dtype, name, monkeypatch):
    make, output, row = FAULTS[name]
    case = make(dtype)
    outputs = list(_native.run(case.op, case.inputs, case.attrs, num_threads=1, target=target))
    compare(case, outputs)
    place = OUTPUTS[case.op].index(output)
    wrong = decode(outputs[place]).copy()
    if output == "softmax_sum":
        wrong[row] *= np.float32(1 + 2.0**-18)
    else:
        wrong[row] = 0
    outputs[place] = encode(wrong, judge.output_dtypes(case)[place])
    with pytest.raises(AssertionError, match=f"{output} .* rows of .*, the worst row"):
        compare(case, outputs)
    for module in (judge, tolerance):
        monkeypatch.setattr(module, "check_rows", lambda *_: None)
    compare(case, outputs)
