"""docs/mindspore_tools.md: tools of MindSpore that are chosen before a process starts."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import mindspore as ms
import pytest
from mindspore import ops

from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "mindspore_tools.md").read_text()

# A graph of one operator, on its data loaded by worker processes; then what MindSpore refuses.
PROGRAM = """
import sys
import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import Tensor, nn, ops
import mindspore_nsa as nsa

class Means(nn.Cell):
    def construct(self, x, weight):
        return nsa.nsa_compress(x, weight, 32, 16, actual_seq_len=(64,))

ms.set_context(mode=ms.GRAPH_MODE)
rows = np.random.default_rng(0).standard_normal((4, 64, 2, 16)).astype(np.float32)
data = ds.NumpySlicesDataset({"x": rows}, shuffle=False)
data = data.map(lambda x: 2 * x, "x", num_parallel_workers=2, python_multiprocessing=True)
(x,) = next(data.create_tuple_iterator(num_epochs=1))
assert np.array_equal(x.asnumpy(), 2 * rows[0])
weight = Tensor(np.full((32, 2), 1 / 32, np.float32))
np.save(sys.argv[1], Means()(x, weight).asnumpy())
ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", device_num=2, global_rank=0)
try:
    Means()(x, weight)
except RuntimeError as error:
    print(str(error).split(" for ")[0])
"""


def run(folder, name, **environment):
    """Output and logs of the program, and its result."""
    program = folder / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, program, folder / name],
        cwd=folder,
        env={
            **os.environ,
            "MS_COMPILER_CACHE_ENABLE": "1",
            "MS_COMPILER_CACHE_PATH": str(folder / "cache"),
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout, done.stderr, (folder / name).read_bytes()


def test_dump_cache_workers_and_sharding(tmp_path):
    """The second process has its graph from the first one's cache, and dumps what it computes."""
    settings = {
        "common_dump_settings": {
            **{"op_debug_mode": 0, "dump_mode": 0, "path": str(tmp_path / "dump")},
            **{"net_name": "net", "iteration": "all", "saved_data": "tensor", "input_output": 0},
            **{"kernels": [], "support_device": [0]},
        },
        "e2e_dump_settings": {"enable": True, "trans_flag": True},
    }
    (tmp_path / "dump.json").write_text(json.dumps(settings))
    said, _, first = run(tmp_path, "first.npy")
    refused = re.search(r'"(Invalid communication backend: CPU)"', PAGE)[1]
    assert refused in said
    _, logged, second = run(
        tmp_path, "second.npy", MINDSPORE_DUMP_CONFIG=str(tmp_path / "dump.json")
    )
    assert "Use the compilation cache" in logged and second == first
    found = [path for path in (tmp_path / "dump").rglob("*.npy") if "Custom__" in str(path)]
    names = {path.name.partition(".")[2].partition(".Default")[0] for path in found}
    assert len(found) >= 3 and all(name.endswith(":NsaCompress") for name in names), names


def test_overflow_has_no_flag_on_a_cpu():
    ms.set_context(mode=ms.PYNATIVE_MODE)
    with pytest.raises(RuntimeError, match=r"Unsupported op \[FloatStatus\] on CPU"):
        ops.FloatStatus()(ops.ones(3)).asnumpy()


@pytest.mark.soak
def test_an_extension_calls_an_operator(tmp_path, monkeypatch):
    """The page's C++ source, which takes half a minute to compile."""
    import numpy as np

    import mindspore_nsa

    monkeypatch.chdir(tmp_path)
    source = Path("means.cc")
    source.write_text(re.search(r"^```cpp\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)[1])
    ms.set_context(mode=ms.PYNATIVE_MODE)
    built = ops.CustomOpBuilder("means_of_windows", [str(source)], backend="CPU").load()
    x, weight = ops.randn(64, 2, 16), ops.ones((32, 2)) / 32
    ours = mindspore_nsa.nsa_compress(x, weight, 32, 16, actual_seq_len=(64,))
    assert np.array_equal(built.means(x, weight, 64).asnumpy(), ours.asnumpy())
    with pytest.raises(ValueError, match="nsa_compress: "):
        built.means(x, ops.ones((31, 2)), 64)
