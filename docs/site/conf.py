"""Settings of the documentation site: `make docs`."""

import posixpath
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Last: where the package is installed, its docstrings are the ones to show.
sys.path.append(str(ROOT))

from mindspore_nsa import __version__  # noqa: E402

project = "mindspore_nsa"
author = "The developers of mindspore_nsa"
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
# The pages are those that a reader of the repository sees, so the repository is the source folder.
# docs/README.md is its list of pages; here that is the side bar.
include_patterns = ["README.md", "README.zh-CN.md", "docs/*.md", "docs/site/*.md"]
include_patterns += ["CHANGELOG.md", "model_zoo_demo/README.md", "twin/README.md", "twin/docs/*.md"]
include_patterns += ["examples/README.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md"]
exclude_patterns = ["docs/README.md"]
root_doc = "README"
html_theme = "furo"
html_title = f"mindspore_nsa {__version__}"
myst_heading_anchors = 3
myst_enable_extensions = ["html_image"]

autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_numpy_docstring = False
# A NamedTuple documents its fields itself.
napoleon_use_ivar = True
# MindSpore's sections that Sphinx does not know.
napoleon_custom_sections = ["Inputs", "Outputs", "Supported Platforms"]

CONTENTS = {
    "Start here": ["docs/install", "docs/where", "examples/README", "model_zoo_demo/README"],
    "Native Sparse Attention": [
        *("docs/native_sparse_attention", "docs/decoding", "docs/parallel"),
        *(
            "docs/mindformers",
            "docs/mindone",
            "docs/nsa",
            "docs/measurements",
            "docs/gallery",
            "docs/mindspore_tools",
        ),
    ],
    "Operators": [
        "docs/operators",
        *("docs/nsa_compress", "docs/nsa_compress_attention", "docs/nsa_selected_attention"),
        *("docs/block_indexer", "docs/lightning_indexer", "docs/sparse_flash_attention"),
        *("docs/lightning_indexer_kl_loss", "docs/flash_attention_score"),
        *("docs/limits", "docs/differences", "docs/peers"),
        *("docs/interface", "docs/site/api"),
    ],
    # And every other page.
    "How it is built": [
        "docs/glossary",
        "docs/layer_to_kernel",
        "docs/cpu_kernels",
        "docs/cpu_measurements",
        "docs/ascend",
        "docs/ascend_attention",
        "docs/ascend_modelled_time",
        "twin/README",
        *("twin/docs/kernels", "twin/docs/operators", "twin/docs/kernels_of_others"),
        *("twin/docs/modelled_time", "twin/docs/rooms"),
        "docs/contributing",
        "docs/testing",
        "docs/releasing",
        "CHANGELOG",
    ],
    "中文": [
        *("README.zh-CN", "docs/install.zh-CN", "docs/native_sparse_attention.zh-CN"),
        *("docs/decoding.zh-CN", "docs/parallel.zh-CN", "docs/operators.zh-CN"),
        *("docs/differences.zh-CN", "docs/ascend.zh-CN"),
    ],
}
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#:]+)(#[^)]*)?\)")


def to_page(app, docname, source):
    """Make a Markdown file of the repository a page of the site.

    The site holds no sources: where a file or folder of the repository is linked to, it is named.
    The first page gets the table of contents.
    """

    def resolve(match):
        text, target = match[1], match[2]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(docname), target))
        if path.removesuffix(".md") in app.env.found_docs:
            return match[0]
        if path == "docs/README.md":
            return text
        return text if path.endswith(text) else f"{text} (`{path}`)"

    source[0] = LINK.sub(resolve, source[0])
    if docname == root_doc:
        listed = {page for pages in CONTENTS.values() for page in pages}
        others = sorted(set(app.env.found_docs) - listed - {root_doc})
        contents = CONTENTS | {"How it is built": [*CONTENTS["How it is built"], *others]}
        for caption, pages in contents.items():
            lines = "\n".join(f"/{page}" for page in pages)
            source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{lines}\n```\n"


def setup(app):
    """Called by Sphinx."""
    app.connect("source-read", to_page)
