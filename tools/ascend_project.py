"""The project of CANN's template: what `make ascend` changes in it before it is built.

The template compiles the operators' host code as C++11, in places that no option reaches; ours is
C++17. CANN's headers compile as both.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

STANDARD = "c++17"
OLD = re.compile(r"-std=(?:c|gnu)\+\+1[14]\b|\bcxx_std_1[14]\b")
NEW = re.compile(
    r"-std=(?:c|gnu)\+\+(?:17|2\w)\b|\bcxx_std_(?:17|2\w)\b|CMAKE_CXX_STANDARD\s+(?:17|2\w)\b"
)
# A call by which a project says how its operators' definitions are compiled, where CANN itself has
# the functions that older templates bring along.
GENERATE = re.compile(r"\bnpu_op_code_gen\s*\(([^)]*)\)")


def _standard(match):
    return "cxx_std_17" if match[0].startswith("cxx") else f"-std={STANDARD}"


def _options(match):
    arguments = match[1]
    if "COMPILE_OPTIONS" in arguments:
        arguments = re.sub(r"\bCOMPILE_OPTIONS\b", f"COMPILE_OPTIONS -std={STANDARD}", arguments)
    else:
        arguments = f"{arguments.rstrip()} COMPILE_OPTIONS -std={STANDARD}"
    return f"npu_op_code_gen({arguments})"


def make_cxx17(project):
    """Let every target of a project be C++17; return the files that say so.

    Raises:
        ValueError: If nothing in the project says which standard it is compiled with.
    """
    project = Path(project)
    said = []
    for path in sorted(project.rglob("*")):
        if path.name != "CMakeLists.txt" and path.suffix not in (".cmake", ".py"):
            continue
        text = path.read_text()
        changed = OLD.sub(_standard, text)
        if GENERATE.search(changed):
            changed = f"set(CMAKE_CXX_STANDARD 17)\n{GENERATE.sub(_options, changed)}"
        if changed != text:
            path.write_text(changed)
        if NEW.search(changed):
            said.append(str(path.relative_to(project)))
    if not said:
        raise ValueError("nothing in it says with which C++ standard it is compiled")
    return said


def main():
    """Entry point for custom_compiler: PROJECT [CANN]."""
    project = Path(sys.argv[1])
    try:
        make_cxx17(project)
    except ValueError as error:
        sys.exit(f"make ascend: CANN's template cannot build C++17: {error}")
    environment = dict(os.environ)
    # The project is built by CANN alone, whatever is installed beside it.
    environment.pop("ASCEND_CUSTOM_OPP_PATH", None)
    if len(sys.argv) > 2:
        libraries = [str(Path(sys.argv[2], "lib64")), environment.get("LD_LIBRARY_PATH", "")]
        environment["LD_LIBRARY_PATH"] = ":".join(filter(None, libraries))
    sys.exit(subprocess.run(["bash", "build.sh"], cwd=project, env=environment).returncode)


if __name__ == "__main__":
    main()
