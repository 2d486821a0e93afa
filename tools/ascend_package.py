"""Builds CANN's custom operator package of the operators in ascendc/: what `make ascend` runs.

The sources are laid out as CANN's operator project wants them (op_host and op_kernel, each one
flat folder), then MindSpore's custom_compiler, which uses CANN's project template, compiles them,
and the package is installed into a folder of its own.
"""

import argparse
import importlib.util
import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENDOR = "mindspore_nsa"
# Atlas A2 and A3, as the definitions of the operators name them.
SOCS = ("ascend910b", "ascend910_93")
INSTALLED = ROOT / "mindspore_nsa" / "ascend_package"
# Paths that custom_compiler, CANN's scripts and CMake all accept.
PLAIN_PATH = re.compile(r"[A-Za-z0-9_./-]+")
VERSION_FILES = (
    "version.info",
    "compiler/version.info",
    "opp/version.info",
    "runtime/version.info",
)
INCLUDE = re.compile(r'^(\s*#include ")([^"]+)(")', re.MULTILINE)
# Where CANN keeps the template of an operator project, by version.
TEMPLATES = (
    "tools/op_project_templates/ascendc/customize",
    "tools/msopgen/template/operator_demo_projects/ascendc_operator_sample",
)


def flat_name(path):
    """Name of a source of this repository in a flat folder: headers keep their whole path."""
    if path.suffix == ".h":
        return "_".join(part for part in path.parts if part != "ascendc")
    if path.parts[0] == "infer":
        return f"infer_{path.stem}.cpp"
    return path.name


def add_source(path, folder, added):
    """Copy a source, and the repository's headers that it includes, into a flat folder."""
    if path in added:
        return
    added.add(path)
    target = folder / flat_name(path)
    if target.exists():
        sys.exit(f"make ascend: two sources would be {target.name}, one of them {path}")

    def flatten(match):
        header = Path(match[2])
        if not (ROOT / header).exists():
            return match[0]  # CANN's own
        add_source(header, folder, added)
        return match[1] + flat_name(header) + match[3]

    # Recursion finds files on the way; the name is taken first, so that a second source shows.
    target.touch()
    target.write_text(INCLUDE.sub(flatten, (ROOT / path).read_text()))


def stage(folder):
    """Write folder/op_host and folder/op_kernel; return the operators."""
    shutil.rmtree(folder, ignore_errors=True)
    operators = sorted(path.parent.name for path in (ROOT / "ascendc").glob("*/op_kernel"))
    sources = {
        "op_host": [*(ROOT / "ascendc").glob("*/op_host/*.cpp"), *(ROOT / "infer").glob("*.cc")],
        "op_kernel": (ROOT / "ascendc").glob("*/op_kernel/*.cpp"),
    }
    for part, paths in sources.items():
        (folder / part).mkdir(parents=True)
        added = set()
        for path in sorted(paths):
            add_source(path.relative_to(ROOT), folder / part, added)
    return operators


def cann_folder():
    """CANN's folder, or an exit that says what is missing."""
    home = os.environ.get("ASCEND_HOME_PATH")
    if not home:
        sys.exit(
            "make ascend: ASCEND_HOME_PATH is not set. The operator package is compiled by CANN: "
            "install the CANN toolkit and run 'source .../set_env.sh' first"
        )
    if not Path(home).is_dir():
        sys.exit(f"make ascend: ASCEND_HOME_PATH is {home}, which is not a folder")
    if not any((Path(home) / template).is_dir() for template in TEMPLATES):
        sys.exit(
            f"make ascend: {home} has no template of an operator project "
            f"({' or '.join(TEMPLATES)}); install the CANN toolkit, "
            "which has it, not the run-time package alone"
        )
    return home


def compiler_folder():
    """The custom_compiler of the installed MindSpore, or an exit that says what is missing."""
    found = importlib.util.find_spec("mindspore")
    if found is None:
        sys.exit(
            f"make ascend: MindSpore is not installed for {sys.executable}: pip install mindspore"
        )
    folder = Path(found.origin).parent / "lib" / "plugin" / "ascend" / "custom_compiler"
    if not (folder / "setup.py").exists():
        sys.exit(f"make ascend: this MindSpore has no custom_compiler: {folder} is missing")
    return folder


def cann_version(cann):
    """Version of the installation."""
    for name in VERSION_FILES:
        path = Path(cann, name)
        found = path.is_file() and re.search(r"^Version=(\S+)", path.read_text(), re.MULTILINE)
        if found:
            return found[1]
    return "of an unknown version"


def build(folder, socs):
    """Compile the staged sources; return the package's installer."""
    cann = cann_folder()
    # custom_compiler works inside its own folder, which is MindSpore's.
    compiler = folder / "custom_compiler"
    shutil.copytree(compiler_folder(), compiler)
    # It runs this script with the project that it has made of the template.
    step = [sys.executable, str(ROOT / "tools" / "ascend_project.py")]
    (compiler / "start.sh").write_text(f'exec {shlex.join(step)} "$@"\n')
    command = [
        sys.executable,
        "setup.py",
        f"--op_host_path={folder / 'op_host'}",
        f"--op_kernel_path={folder / 'op_kernel'}",
        f"--soc_version={';'.join(socs)}",
        f"--vendor_name={VENDOR}",
        f"--ascend_cann_package_path={cann}",
    ]
    done = subprocess.run(command, cwd=compiler)
    packages = sorted((compiler / "CustomProject" / "build_out").glob("*.run"))
    log = compiler / "build.log"
    if done.returncode != 0 or not packages:
        said = log.read_text(errors="replace") if log.exists() else ""
        refused = re.search(r"^make ascend: .*", said, re.MULTILINE)
        sys.exit(refused[0] if refused else f"make ascend: CANN's build failed; see {log}")
    return packages[0]


def install(package, target, socs):
    """Install a package, for this project alone: CANN's own folders stay as they are."""
    version = {}
    exec((ROOT / "mindspore_nsa" / "_version.py").read_text(), version)
    with tempfile.TemporaryDirectory(prefix="mindspore_nsa_") as folder:
        # The installer puts its vendor first for whoever uses the folder that this would name.
        environment = {k: v for k, v in os.environ.items() if k != "ASCEND_CUSTOM_OPP_PATH"}
        command = ["bash", str(package), "--quiet", f"--install-path={folder}"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        made = Path(folder, "vendors", VENDOR)
        if done.returncode != 0 or not (made / "op_api").is_dir():
            sys.exit(f"make ascend: {package} did not install: {done.stdout[-500:]}{done.stderr}")
        # It names the folder that the package does not stay in.
        shutil.rmtree(made / "bin", ignore_errors=True)
        built = {
            "mindspore_nsa": version["__version__"],
            "soc": list(socs),
            "cann": cann_version(cann_folder()),
            "sources": runpy.run_path(str(ROOT / "mindspore_nsa" / "_ascend_package.py"))[
                "sources"
            ](ROOT),
        }
        (made / "built_for.json").write_text(json.dumps(built) + "\n")
        shutil.rmtree(target, ignore_errors=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(made, target)


def plain_folder(folder):
    """The folder itself, or a temporary one where CANN's scripts do not take its name."""
    if PLAIN_PATH.fullmatch(str(folder)):
        return folder
    plain = Path(tempfile.mkdtemp(prefix="mindspore_nsa_ascend_", dir="/tmp"))
    print(f"make ascend: CANN's scripts do not take {folder}; the sources are compiled in {plain}")
    return plain


def main():
    """Stage the sources, have them compiled, and install the package."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", default=ROOT / "build" / "ascend", type=Path)
    parser.add_argument("--stage-only", action="store_true", help="lay the sources out, no more")
    parser.add_argument("--soc", default="", help=f"default: {';'.join(SOCS)}")
    parser.add_argument("--install-path", default="", help="install into vendors/ of this folder")
    options = parser.parse_args()
    socs = tuple(re.findall(r"[^;, ]+", options.soc)) or SOCS
    if set(socs) - set(SOCS):
        sys.exit(f"make ascend: SOC is one of {', '.join(SOCS)} or both, got {options.soc!r}")
    if not options.stage_only:
        cann_folder()
        compiler_folder()
    folder = options.folder.resolve()
    if not options.stage_only:
        folder = plain_folder(folder)
    operators = stage(folder)
    print(f"make ascend: {', '.join(operators)} laid out in {folder}")
    if options.stage_only:
        return
    package = build(folder, socs)
    given = options.install_path
    target = Path(given).resolve() / "vendors" / VENDOR if given else INSTALLED
    install(package, target, socs)
    print(f"make ascend: built {package} for {', '.join(socs)}, installed in {target}")
    if given:
        print(f"make ascend: let MindSpore find it: export ASCEND_CUSTOM_OPP_PATH={target}")


if __name__ == "__main__":
    main()
