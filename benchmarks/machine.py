"""The machine, its load and its memory."""

import datetime
import os
import platform
from importlib import metadata
from pathlib import Path

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def use_threads(threads):
    """Give this process `threads` processors; before NumPy and MindSpore make their thread pools.

    Returns the number of processors in use: all that the process may use for `threads` 0.
    """
    processors = sorted(os.sched_getaffinity(0))
    if threads:
        processors = processors[:threads]
        os.sched_setaffinity(0, processors)
    for name in THREAD_VARIABLES:
        os.environ[name] = str(len(processors))
    return len(processors)


def _cpu_model():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _version(package):
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "none"


def describe():
    """Name -> value of everything that a figure depends on."""
    import mindspore_nsa
    from mindspore_nsa import _native
    from mindspore_nsa._version import commit

    return {
        "cpu": _cpu_model(),
        "processors": f"{len(os.sched_getaffinity(0))} of {os.cpu_count()}",
        "isa": _native.isa(),
        "threads": str(_native.num_threads()),
        "mindspore_nsa": mindspore_nsa.__version__,
        "commit": commit(),
        **{name: _version(name) for name in ("mindspore", "numpy", "torch")},
        "python": platform.python_version(),
        "load": load(),
        "date": datetime.date.today().isoformat(),
    }


def load():
    """Load averages of 1, 5 and 15 minutes."""
    return " ".join(f"{x:.2f}" for x in os.getloadavg())


def available_memory():
    """Bytes that a process can still get, by the system and by its control group."""
    fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    available = int(fields["MemAvailable"].split()[0]) * 1024
    limit, used = (Path("/sys/fs/cgroup", f"memory.{name}") for name in ("max", "current"))
    if limit.exists() and limit.read_text().strip() != "max":
        available = min(available, int(limit.read_text()) - int(used.read_text()))
    return available


def status_bytes(field):
    """VmRSS or VmHWM of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise KeyError(field)


def reset_peak():
    """VmHWM starts again from what is resident now."""
    Path("/proc/self/clear_refs").write_text("5")
