"""Operators that several Python threads call at once."""

import threading

import numpy as np
import pytest
from mindspore import Tensor

import mindspore_nsa

from .calls import to_numpy

THREADS, CALLS = 4, 12


def attention(tensors, scale):
    """A scale of its own makes the call an operator that MindSpore has not seen."""
    return to_numpy(
        mindspore_nsa.flash_attention_score(
            *tensors, 2, input_layout="TND", scalar_value=scale, actual_seq_qlen=(5, 12),
            actual_seq_kvlen=(5, 12))
    )  # fmt: skip


@pytest.mark.parametrize("target", ["cpu", "ascend_twin"])
def test_forward(target):
    draw = np.random.default_rng(3)
    tensors = [Tensor(draw.standard_normal((12, 2, 16), np.float32)) for _ in range(3)]
    # Some scales several threads use, at about the same time; each has some of its own.
    scales = [[0.1 + call + thread * (call % 2) / 8 for call in range(CALLS)]
              for thread in range(THREADS)]  # fmt: skip
    found, errors = {}, []

    def work(thread):
        try:
            for scale in scales[thread]:
                found[thread, scale] = attention(tensors, scale)
        except Exception as error:  # the main thread tells of it
            errors.append(error)

    with mindspore_nsa.target(target):
        threads = [threading.Thread(target=work, args=(thread,)) for thread in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors, errors
        assert len(found) == THREADS * CALLS
        for (_, scale), result in found.items():
            np.testing.assert_array_equal(result, attention(tensors, scale))
