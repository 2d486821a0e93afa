"""Forward calls whose rows see many keys, in tiles where every number is moderate and in others."""

import numpy as np
import pytest

from mindspore_nsa import _native
from mindspore_nsa.testing.case import compare
from tests.common.many_keys import many_keys_cases


@pytest.mark.parametrize("name", many_keys_cases())
def test_right(isa, name):
    """Right, with the same bits on any number of threads."""
    case = many_keys_cases()[name]()
    ours = [_native.run(case.op, case.inputs, case.attrs, num_threads=n) for n in (1, 3)]
    with np.errstate(invalid="ignore", over="ignore"):
        compare(case, ours[0])
    assert [x.tobytes() for x in ours[0] if x is not None] == [
        x.tobytes() for x in ours[1] if x is not None
    ]
