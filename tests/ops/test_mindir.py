"""Export to MindIR and back."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn

from mindspore_nsa import _native

from .calls import context_mode
from .operators import N2, D, batch, seeded, sequence


@pytest.mark.parametrize("mode", ["pynative", "graph"])
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_export_and_reload(tmp_path, mode, dynamic):
    x, _ = batch()
    net = seeded()
    net.set_train(False)
    expected = [net(x, seq).asnumpy() for seq in (sequence(40, 96), sequence(0, 96))]
    described = (x, sequence(40, 96))
    if dynamic:
        described = (Tensor(shape=[None, N2 * D], dtype=ms.float32),
                     Tensor(shape=[None], dtype=ms.int64))  # fmt: skip
    with context_mode(mode):
        ms.export(net, *described, file_name=str(tmp_path / "net"), file_format="MINDIR")
    # The file names the library that holds the operators.
    assert _native.__file__.encode() in (tmp_path / "net.mindir").read_bytes()
    reloaded = nn.GraphCell(ms.load(str(tmp_path / "net.mindir")))
    for seq, out in zip((sequence(40, 96), sequence(0, 96)), expected):
        np.testing.assert_array_equal(reloaded(x, seq).asnumpy(), out)
        assert out.any()
    if dynamic:
        short, _ = batch(64)
        np.testing.assert_array_equal(
            reloaded(short, sequence(64)).asnumpy(), net(short, sequence(64)).asnumpy()
        )
