"""Attention calls with values near the largest float32."""

import numpy as np

from mindspore_nsa.testing.case import Case
from mindspore_nsa.testing.dtypes import decode, encode


def with_large_values(case, largest=3e38):
    """The case with values of one sign from two thirds of `largest` on."""
    named = case.named()
    values = np.abs(decode(named["value"]).astype(np.float64))
    values = np.where(np.isfinite(values), values, 0)
    values = largest * (2 + np.minimum(values, 1)) / 3
    named["value"] = encode(values.astype(np.float32), case.dtype)
    return Case.of(case.op, named, case.attrs, case.dtype, case.name)
