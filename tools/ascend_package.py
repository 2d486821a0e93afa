"""Builds CANN's custom operator package of the operators in ascendc/: what `make ascend` runs.

The sources are laid out as CANN's operator project wants them (op_host and op_kernel, each one flat
folder), then MindSpore's custom_compiler, which uses CANN's project template, compiles them.
"""

import argparse
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENDOR = "mindspore_nsa"
SOC = "ascend910b"
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


def build(folder, install_path):
    """Compile the staged sources; return the package's installer."""
    cann = cann_folder()
    # It works inside its own folder, which is MindSpore's.
    compiler = folder / "custom_compiler"
    shutil.copytree(compiler_folder(), compiler)
    command = [
        sys.executable,
        "setup.py",
        f"--op_host_path={folder / 'op_host'}",
        f"--op_kernel_path={folder / 'op_kernel'}",
        f"--soc_version={SOC}",
        f"--vendor_name={VENDOR}",
        f"--ascend_cann_package_path={cann}",
    ]
    if install_path:
        command += ["--install", f"--install_path={install_path}"]
    done = subprocess.run(command, cwd=compiler)
    packages = sorted((compiler / "CustomProject" / "build_out").glob("*.run"))
    if done.returncode != 0 or not packages:
        log = compiler / "build.log"
        sys.exit(f"make ascend: CANN's build failed; its output is in {log}")
    return packages[0]


def main():
    """Stage the sources and have them compiled."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", default=ROOT / "build" / "ascend", type=Path)
    parser.add_argument("--stage-only", action="store_true", help="lay the sources out, no more")
    parser.add_argument("--install-path", default="", help="install the package there")
    options = parser.parse_args()
    if not options.stage_only:
        cann_folder()
        compiler_folder()
    folder = options.folder.resolve()
    operators = stage(folder)
    print(f"make ascend: {', '.join(operators)} laid out in {folder}")
    if not options.stage_only:
        package = build(folder, options.install_path)
        print(f"make ascend: built {package}; install it with 'bash {package}'")


if __name__ == "__main__":
    main()
