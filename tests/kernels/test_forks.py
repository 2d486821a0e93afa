"""A forked child, which has none of its parent's threads, computes whatever those did before."""

from tests.common.children import python

PARENT = """
import os, sys, threading
import numpy as np
from mindspore_nsa import _native

x, weight = np.ones((4096, 2, 64), np.float32), np.ones((8, 2), np.float32)
WINDOW = {"compress_block_size": 8, "compress_stride": 4, "num_windows": 1023}
def compress():
    return _native.run("NsaCompress", [x, weight, np.array([4096])], WINDOW)[0]
_native.set_num_threads(3)
expected = compress()
def in_child(work):
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    assert status == 0, status
"""


def test_a_child_runs_in_one_thread():
    done = python(
        PARENT
        + """
def work():
    assert _native.num_threads() == 1
    assert np.array_equal(compress(), expected)
    _native.set_num_threads(2)
    assert _native.num_threads() == 1
    assert np.array_equal(compress(), expected)
    in_child(lambda: compress())
in_child(work)
assert _native.num_threads() == 3 and np.array_equal(compress(), expected)
"""
    )
    assert done.returncode == 0, done.stderr


def test_a_childs_new_threads_have_teams():
    """Only the thread that lived through the fork has lost its team."""
    done = python(
        PARENT
        + """
def work():
    seen = []
    def run():
        seen.append(_native.num_threads())
        assert np.array_equal(compress(), expected)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [3], seen
in_child(work)
"""
    )
    assert done.returncode == 0, done.stderr


def test_a_compiled_cell():
    done = python(
        PARENT
        + """
import mindspore as ms
import mindspore_nsa
ms.set_context(mode=ms.GRAPH_MODE)
class Compress(ms.nn.Cell):
    def construct(self, x, weight):
        return mindspore_nsa.nsa_compress(x, weight, 8, 4, actual_seq_len=(4096,))
cell, inputs = Compress(), (ms.Tensor(x), ms.Tensor(weight))
assert np.array_equal(cell(*inputs).asnumpy(), expected)
def work():
    assert np.array_equal(cell(*inputs).asnumpy(), expected)
in_child(work)
"""
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_workers_of_a_dataset():
    """GeneratorDataset's workers are forks of a process that has run operators."""
    done = python(
        PARENT
        + """
import mindspore.dataset as ds
class Source:
    def __getitem__(self, index):
        return compress()[index]
    def __len__(self):
        return 8
data = ds.GeneratorDataset(Source(), ["row"], num_parallel_workers=2, python_multiprocessing=True,
                           shuffle=False)
rows = [row["row"] for row in data.create_dict_iterator(output_numpy=True, num_epochs=1)]
assert len(rows) == 8 and all(np.array_equal(a, b) for a, b in zip(rows, expected))
""",
        timeout=100,
    )
    assert done.returncode == 0, done.stderr[-3000:]
