"""Makes `tests` importable without putting the source tree before the installed package."""

import gc
import os
import re
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# In PyNative mode MindSpore's threads spin, and so does Python's where it waits for them: with a
# process of the tests on every processor a gradient took 20 times its own time. So these processes,
# and the programs that they start, run each operator where it is called. MindSpore reads this when
# it is imported. tests/ops/test_asynchronous.py runs tests without it.
WAITS = os.environ.setdefault("MS_DEV_LAUNCH_BLOCKING", "1")

# With the programs that its tests start.
BYTES_OF_A_PROCESS = 4 << 30

# Last, not first: where mindspore_nsa is installed, that is what the tests import.
sys.path += [str(ROOT), str(ROOT / "twin")]


def _name_to_programs(*packages):
    """Programs that the tests start import the packages that the tests do.

    One that is installed would hide those of a tree that this process found in its own folder.
    """
    folders = [str(Path(find_spec(package).origin).parents[1]) for package in packages]
    installed = (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    new = [x for x in dict.fromkeys(folders) if x not in (*installed, *known)]
    if new:
        os.environ["PYTHONPATH"] = os.pathsep.join((*new, *filter(None, known)))


_name_to_programs("mindspore_nsa", "ascendc_twin")


@pytest.fixture(autouse=True)
def same_import_path():
    """Takes back what MindSpore's rewriting (amp levels) adds to sys.path.

    One of its folders has a math.py, which hides Python's own from every process started later.
    """
    before = list(sys.path)
    yield
    sys.path[:] = before


@pytest.fixture(autouse=True, scope="module")
def little_to_search():
    """Spares what is there, all tests and MindSpore, from later searches for garbage.

    MindSpore asks for one before it compiles a graph, which otherwise takes most of a test's time.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def same_target():
    """Takes back the target that the programs and examples of a file set for their process."""
    from mindspore_nsa import _config

    before = _config.requested_target()
    yield
    _config._State.name = before


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config):
    """One process more than processors where memory lasts, because tests wait, too.

    MindSpore sleeps three seconds after every error in a graph, and workers wait for one another.
    """
    processors = len(os.sched_getaffinity(0))
    return processors + (_memory() >= (processors + 1) * BYTES_OF_A_PROCESS)


def _memory():
    """Bytes that new programs may have: the system's, or the limit of a container."""
    text = Path("/proc/meminfo").read_text()
    available = int(re.search(r"^MemAvailable: +(\d+) kB", text, re.MULTILINE)[1]) << 10
    limit = Path("/sys/fs/cgroup/memory.max")
    limited = limit.exists() and limit.read_text().strip().isdecimal()
    return min(available, int(limit.read_text())) if limited else available


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    """The process that prints says which folder is being run."""
    from tests.common.progress import Progress

    # Some tests start pytest and read what it prints by default.
    os.environ.pop("PYTEST_ADDOPTS", None)
    if config.pluginmanager.has_plugin("terminalreporter") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Progress(config))


def pytest_report_header():
    """Says what is tested."""
    import mindspore_nsa
    from mindspore_nsa import _native

    return [
        f"mindspore_nsa: {Path(mindspore_nsa.__file__).parent}",
        f"instruction sets: {', '.join(_native.available_isas())}; threads: "
        f"{_native.num_threads()}; processors: {len(os.sched_getaffinity(0))}",
        f"operators of PyNative mode: {'asynchronous' if WAITS == '0' else 'one after the other'}",
    ]
