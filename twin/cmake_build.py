"""A build by CMake, as the setup.py of this package and that of the repository do it."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path


def tool(name):
    """Path of cmake or ninja, None if missing: of this environment's PyPI package, or from PATH."""
    beside_python = Path(sys.executable).with_name(name)
    return str(beside_python) if beside_python.exists() else shutil.which(name)


def has_compiler():
    """Whether the C++ compiler that CMake will take is there."""
    # CXX may hold options, or a launcher before the compiler; empty is as if it were not set.
    words = shlex.split(os.environ.get("CXX", "")) or ["g++"]
    return shutil.which(words[0]) is not None


def require_packages(project, *modules):
    """Name every package without which the build would end in the middle."""
    missing = [name for name in modules if find_spec(name) is None]
    missing += [name for name in ("cmake", "ninja") if tool(name) is None]
    if missing:
        sys.exit(
            f"building {project} needs {', '.join(missing)}: "
            f"{sys.executable} -m pip install {' '.join(missing)}"
        )


class Build:
    """A folder in which CMake builds a project; ninja rebuilds only what changed since the last
    time. A failure ends the process with the command that failed."""

    def __init__(self, project, folder):
        if not has_compiler():
            sys.exit(f"building {project} needs a C++17 compiler: apt-get install g++")
        self._project = project
        self.folder = Path(folder).resolve()
        self.folder.mkdir(parents=True, exist_ok=True)

    def _run(self, *command):
        try:
            subprocess.run(command, check=True)
        except subprocess.CalledProcessError as error:
            sys.exit(f"building {self._project} failed: {' '.join(error.cmd)}")

    def source(self):
        """Source folder of the project that the folder has been configured for, or None."""
        cache = self.folder / "CMakeCache.txt"
        text = cache.read_text() if cache.exists() else ""
        found = re.search(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.*)$", text, re.MULTILINE)
        return found and Path(found[1])

    def configure(self, source, *options):
        """Make it the folder of the project in `source`."""
        ninja = f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}"
        command = [tool("cmake"), "-S", str(source), "-B", str(self.folder), "-G", "Ninja", ninja]
        self._run(*command, *options)

    def build(self, *targets):
        """Build these targets, or everything."""
        jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL") or str(len(os.sched_getaffinity(0)))
        chosen = ["--target", *targets] if targets else []
        self._run(tool("cmake"), "--build", str(self.folder), "-j", jobs, *chosen)

    def install(self, component, prefix):
        """Put the files of a component into the folder `prefix`."""
        command = [tool("cmake"), "--install", str(self.folder), "--component", component]
        self._run(*command, "--prefix", str(prefix))


def put(source, target):
    """Copy to another name and rename: whoever has the old file loaded keeps it."""
    part = target.with_name(target.name + ".part")
    shutil.copy2(source, part)
    os.replace(part, target)


def put_tree(source, target):
    """Put every file of a folder; of the folders in it, what is not in `source` goes."""
    for folder in (path for path in source.iterdir() if path.is_dir()):
        kept = {path.relative_to(source) for path in folder.rglob("*")}
        for path in sorted((target / folder.name).rglob("*"), reverse=True):
            if path.relative_to(target) not in kept:
                path.rmdir() if path.is_dir() else path.unlink()
    for path in (path for path in source.rglob("*") if path.is_file()):
        to = target / path.relative_to(source)
        to.parent.mkdir(parents=True, exist_ok=True)
        put(path, to)
