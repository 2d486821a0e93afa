"""A working copy of the sources, built for one instruction set, in which a mutant is judged."""

import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import uuid
from importlib.util import find_spec
from pathlib import Path

from twin import cmake_build

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "mutants"
# Where one of these is in the processor, most of what the kernels do for vectors is in it.
ONE_ISA = "neon" if os.uname().machine in ("aarch64", "arm64") else "avx2"
# Python takes bytecode for that of a source of equal size and second, which a mutant may have.
ENVIRONMENT = {
    **{"PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": "1", "OMP_WAIT_POLICY": "passive"},
    **{
        "OPENBLAS_NUM_THREADS": "1",
        "MALLOC_MMAP_MAX_": "0",
        "MALLOC_TRIM_THRESHOLD_": "1073741824",
    },
}
BUILD_SECONDS = 1800
_REFUSED = re.compile(r"^[^\n]*:\d+:\d+: (?:fatal )?error: .*", re.MULTILINE)


class NotCompiled(Exception):
    """Messages of the compiler about a change."""


def sources():
    """Names of the files of the tree, those that git does not know yet included."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return sorted(name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file())


# In the environment of a process and of all that it starts.
MARK = "MINDSPORE_NSA_MUTANT"


def _end_all(mark):
    """End every process of a mark: msrun's workers have sessions of their own, and spin."""
    wanted = f"{MARK}={mark}\0".encode()
    found = True
    while found:
        found = False
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if wanted in (folder / "environ").read_bytes():
                    os.kill(int(folder.name), signal.SIGKILL)
                    found = True
            except OSError:  # it has ended, or is another user's
                continue


def finished(command, cwd, seconds, environment=None):
    """(exit code, output) of a process; None if it had to be ended.

    All that it started and that goes on ends with it.
    """
    mark = uuid.uuid4().hex
    with tempfile.TemporaryFile() as file:
        process = subprocess.Popen(
            list(map(str, command)),
            cwd=cwd,
            env={**(environment or os.environ), MARK: mark},
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _end_all(mark)
            process.wait()
        file.seek(0)
        return None if code is None else (code, file.read().decode(errors="replace"))


class Copy:
    """`folder` holds the sources in one folder and what is built in another."""

    def __init__(self, folder, jobs=None):
        self.tree, self.build = folder / "tree", folder / "build"
        self._modules = self.build / "modules"
        self.clean = {}  # what make() gives of the sources as they are
        self._jobs = jobs or len(os.sched_getaffinity(0))

    def update(self):
        """Make it the tree as it is; files that are the same keep their times."""
        names, old = sources(), self.tree / ".sources"
        for name in set(old.read_text().split("\n") if old.exists() else ()).difference(names):
            (self.tree / name).unlink(missing_ok=True)
        found = hashlib.blake2b(digest_size=8)
        for name in names:
            content, to = (ROOT / name).read_bytes(), self.tree / name
            if not name.startswith("tests/mutants/"):  # no judge reads these
                found.update(name.encode() + b"\0" + content)
            if not to.exists() or to.read_bytes() != content:
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, to)
                os.utime(to)
        old.write_text("\n".join(names))
        self.digest = found.hexdigest()
        self._share_environments()

    def _share_environments(self):
        """Frameworks and what they computed take minutes to make: the copies have the tree's."""
        made, here = ROOT / "build" / "integrations", self.tree / "build" / "integrations"
        made.mkdir(parents=True, exist_ok=True)
        here.parent.mkdir(exist_ok=True)
        if not here.exists():
            here.symlink_to(made)

    def take_libraries(self):
        """The native libraries of the package that this Python imports."""
        for package, folder in (("mindspore_nsa", ""), ("ascendc_twin", "twin")):
            found = find_spec(package)
            assert found is not None, "there are no native libraries: make build"
            package = Path(found.origin).parent
            for name in ("*.so", "cann", "include", "twin/*.so", "twin/cann", "twin/include"):
                for path in package.glob(name):
                    to = self.tree / folder / package.name / path.relative_to(package)
                    copy = shutil.copytree if path.is_dir() else shutil.copy2
                    copy(path, to, **({"dirs_exist_ok": True} if path.is_dir() else {}))

    def configure(self):
        """Prepare the fast build."""
        import pybind11

        build = cmake_build.Build("the mutants", self.build)
        build.configure(
            self.tree,
            f"-DPython_EXECUTABLE={sys.executable}",
            f"-DPython_INCLUDE_DIR={sysconfig.get_path('include')}",
            f"-Dpybind11_DIR={pybind11.get_cmake_dir()}",
            f"-DNSA_MODULE_DIR={self._modules}",
            f"-DNSA_MODULE_FILE=_native{sysconfig.get_config_var('EXT_SUFFIX')}",
            f"-DNSA_ONE_ISA={ONE_ISA}",
        )

    def make(self, target):
        """Build `_native`, or the operators as well; raises NotCompiled. Gives a digest of them."""
        cmake = cmake_build.tool("cmake")
        command = [cmake, "--build", self.build, "-j", self._jobs]
        done = finished([*command, *(["-t", target] if target == "_native" else [])],
                        self.tree, BUILD_SECONDS)  # fmt: skip
        if done is None or done[0]:
            raise NotCompiled(_refused(done[1]) if done else "the compiler does not end")
        for module in self._modules.iterdir():
            cmake_build.put(module, self.tree / "mindspore_nsa" / module.name)
        if target != "_native":
            self._install("operators", self.tree / "mindspore_nsa" / "twin")
            self._install("ascendc_twin", self.tree / "twin" / "ascendc_twin")
        found = hashlib.blake2b(digest_size=8)
        folders = ["mindspore_nsa/twin", "twin/ascendc_twin"] if target != "_native" else []
        made = [path for folder in folders for path in (self.tree / folder).rglob("*.so")]
        for path in sorted([*self._modules.iterdir(), *made]):
            found.update(path.read_bytes())
        return found.hexdigest()

    def _install(self, component, folder):
        command = [cmake_build.tool("cmake"), "--install", self.build, "--component", component]
        subprocess.run([*command, "--prefix", folder], check=True)

    def judge(self, judge, seconds, of_a_test=None):
        """(exit code, output, seconds) of a judge; the code is None if it did not end in time.

        A test that takes longer than `of_a_test` seconds ends the process.
        """
        started = time.monotonic()
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
        if of_a_test:
            command += [f"--timeout={of_a_test}", "-o", "timeout_method=thread"]
        path = os.pathsep.join((str(self.tree), str(self.tree / "twin")))
        environment = {**os.environ, **ENVIRONMENT, "PYTHONPATH": path}
        done = finished([*command, *judge.tests], self.tree, seconds, environment)
        return (*(done or (None, "")), time.monotonic() - started)


def _refused(output):
    """The compiler's first error."""
    found = _REFUSED.search(output)
    return found[0] if found else output[-500:]
