"""The list of operators, and the files that may know the twin."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_operators_are_the_folders_with_a_kernel():
    """The files of their host side and of their kernel are named after them."""
    operators = {path.parent for path in (ROOT / "ascendc").glob("*/op_kernel")}
    assert operators
    for folder in operators:
        assert (folder / "op_kernel" / f"{folder.name}.cpp").exists()
        assert (folder / "op_host" / f"{folder.name}.cpp").exists()
    definitions = {
        path.parents[1]
        for path in (ROOT / "ascendc").rglob("*.cpp")
        if re.search(r"^OP_ADD\(", path.read_text(), re.MULTILINE)
    }
    assert definitions == operators


def test_the_twin_is_called_by_its_public_interface():
    """Code that runs kernels knows acl and aclnn alone. Only the operators' functions under CANN's
    names, which a package for CANN does not have, call the twin."""
    for folder in ("binding", "cpu", "infer"):
        for path in (ROOT / folder).iterdir():
            if path.suffix in (".cc", ".h"):
                assert not re.search(r"\btwin::|#include \"twin/", path.read_text()), path
    knowing = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "ascendc").rglob("*.[ch]*")
        if re.search(r"\btwin::|#include \"twin/", path.read_text())
    }
    assert knowing == {"ascendc/op_api/forward.cc"}
    for path in [ROOT / "CMakeLists.txt", *(ROOT / "cmake").iterdir()]:
        assert "twin/" not in re.sub(r"#.*|/twin/ascendc_twin", "", path.read_text()), path
