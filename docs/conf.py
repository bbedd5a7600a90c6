"""Sphinx's settings: MyST pages, numpydoc docstrings, one reference page for each public module."""

import inspect
import pkgutil
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import GenericAlias

import poplibs_py
from poplibs_py import popops
from poplibs_py.ops import catalogue
from poplibs_py.popops.elementwise.table import ELEMENTWISE
from poplibs_py.popops.vertices.nonlinearities import nonlinearity_op, nonlinearity_vertices
from poplibs_py.popops.vertices.unary import unary_entry
from poplibs_py.target import Target
from poplibs_py.target.types import vector_of

project = "poplibs_py"
author = "The poplibs_py developers"
project_copyright = author
release = poplibs_py.__version__
version = release

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
]
exclude_patterns = ["_build", "_templates", "generated/*.md"]
templates_path = ["_templates"]
myst_enable_extensions = ["dollarmath", "deflist", "colon_fence"]
myst_heading_anchors = 3

default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "none"
numpydoc_show_class_members = False
autosummary_generate = True

# Doors to libraries that are not installed are described all the same.
autodoc_mock_imports = [name for name in ("torch", "dask") if find_spec(name) is None]
absent = tuple(f"poplibs_py.{name}" for name in autodoc_mock_imports)

# What each package offers under its own name; its modules' pages describe it.
autosummary_context = {
    "public_names": {
        package.name: list(getattr(import_module(package.name), "__all__", []))
        for package in pkgutil.walk_packages(poplibs_py.__path__, "poplibs_py.")
        if package.ispkg and not package.name.rpartition(".")[2].startswith("_") and not package.name.startswith(absent)
    }
}

def write_table(name, rows):
    """Write rows of a table for a page to include."""
    table = Path(__file__).parent / "generated" / name
    table.parent.mkdir(exist_ok=True)
    table.write_text("\n".join(rows) + "\n")


# What each op takes, promises and runs by, which docs/reference/ops.md includes.
sys.path.insert(0, str(Path(__file__).parent))
write_table("contracts.md", import_module("table_of_ops").rows())

# The table of ops, which docs/reference/ops.md includes, from their records.
rows = ["| op | PopLibs | planned by | reference | bound | written to | values of a call alone |",
        "|---|---|---|---|---|---|---|"]
for record in catalogue.values():
    library, _, short = record.name.rpartition(".")
    planner = f"plan_{short}" if hasattr(import_module(f"poplibs_py.{library}"), f"plan_{short}") else ""
    cells = (record.name, record.poplibs, planner, record.reference, record.bound, record.written,
             ", ".join(record.values))
    rows.append("| " + " | ".join(f"`{cell}`" if cell else "" for cell in cells) + " |")
write_table("ops.md", rows)

# The table of elementwise operations, which docs/reference/popops.md includes, from their docstrings.
rows = ["| Function | Kinds | Value, FP32 result, PopLibs' name | Special arguments |", "|---|---|---|---|"]
for name, row in ELEMENTWISE.items():
    function = getattr(popops, name)
    told, _, _ = inspect.getdoc(function).partition("Parameters\n")
    head, _, notes = (" ".join(part.split()) for part in told.partition("\n\n"))
    head = head.replace("``", "`").replace("|", "\\|")
    kinds = ", ".join(row.kinds) + " to b" * row.tells
    rows.append(f"| `{name}({', '.join(row.operands)})` | {kinds} | {head} | {notes} |")
write_table("elementwise.md", rows)

# The vertices of modelled machines, which docs/explanation/modelled.md includes: a worker's cycles for an element in a
# long row.
rows = ["| Function | PopLibs' operation | float32 | float16 | float32 in place | float16 in place |",
        "|---|---|---|---|---|---|"]
for name, row in ELEMENTWISE.items():
    cells = []
    for in_place in (False, True):
        for kind in ("float", "half"):
            entry, length = unary_entry(row.vertex_op, kind, in_place), 1 << 20
            each = entry and entry.loop(length, vector_of(Target.gc200(), kind)) / length
            if nonlinearity_op(row.vertex_op) and not (in_place and len(row.operands) > 1):
                [vertex] = nonlinearity_vertices(Target.gc200(), row.vertex_op, kind, 6 * length, in_place=in_place)
                each = vertex.cycles / (6 * length)
            cells.append(f"{each:.4g}" if each else "")
    if any(cells) and (len(row.operands) == 1 or nonlinearity_op(row.vertex_op)):
        rows.append(f"| `{name}` | `{row.vertex_op}` | " + " | ".join(cells) + " |")
write_table("vertices.md", rows)

html_theme = "alabaster"
html_theme_options = {
    "description": "Block-sparse and low-precision kernels, planned, on this CPU",
    "fixed_sidebar": True,
    "page_width": "70rem",
}
html_show_sphinx = False
html_show_sourcelink = False


def setup(app):
    """Leave out aliases of generic types, which autodoc takes for classes."""
    app.connect("autodoc-skip-member", lambda _app, _what, _name, member, _skip, _options:
                True if isinstance(member, GenericAlias) else None)
