"""The operators' package for CANN that `make ascend` builds: where it is, how MindSpore finds it.

It lies in a folder of its own, in this package or where INSTALL_PATH said, and never among the
vendors of the CANN installation, where it would be there for every user of the machine.
"""

import hashlib
import json
import os
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "ascend_package"
# `make ascend` leaves this file beside CANN's.
BUILT_FOR = "built_for.json"
LIBRARY = Path("op_api", "lib", "libcust_opapi.so")


def sources(root: str | Path) -> str:
    """Digest of what the package is made of in a folder of sources: a stale one has another."""
    digest = hashlib.sha256()
    for folder in ("ascendc", "infer"):
        for path in sorted(Path(root, folder).rglob("*.*")):
            if path.suffix in (".h", ".cc", ".cpp"):
                digest.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def find() -> Path | None:
    """The folder of the package that MindSpore finds, or would find, or None."""
    given = [Path(path) for path in os.environ.get("ASCEND_CUSTOM_OPP_PATH", "").split(":") if path]
    for path in (*given, FOLDER):
        if (path / BUILT_FOR).is_file() and (path / LIBRARY).is_file():
            return path
    return None


def announce() -> None:
    """Let MindSpore find the package in this folder, behind what the user has named.

    MindSpore reads the variable at its first call of an aclnn function. The operators have names of
    their own, so that the order does not matter.
    """
    path = find()
    given = os.environ.get("ASCEND_CUSTOM_OPP_PATH", "")
    if path is not None and str(path) not in given.split(":"):
        os.environ["ASCEND_CUSTOM_OPP_PATH"] = f"{given}:{path}" if given else str(path)


def described() -> str:
    """One line: where the package is, and what it was built for."""
    path = find()
    if path is None:
        return "not installed ('make ascend' builds and installs it where CANN is)"
    built = json.loads((path / BUILT_FOR).read_text())
    return (
        f"{path} (mindspore_nsa {built['mindspore_nsa']}, for {', '.join(built['soc'])}, "
        f"CANN {built['cann']})"
    )
