"""Sphinx's settings: MyST pages, numpydoc docstrings, one reference page for each public module."""

import tomllib
from pathlib import Path

_settings = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())

project = "poplibs_py"
author = "The poplibs_py developers"
project_copyright = author
release = _settings["project"]["version"]
version = release

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
]
exclude_patterns = ["_build", "_templates", "**/.ipynb_checkpoints"]
templates_path = ["_templates"]
myst_enable_extensions = ["dollarmath", "deflist", "colon_fence"]
myst_heading_anchors = 3

default_role = "code"
nitpicky = False
autosummary_generate = True
autodoc_member_order = "bysource"
autodoc_typehints = "none"
numpydoc_show_class_members = False

html_theme = "alabaster"
html_theme_options = {
    "description": "Block-sparse and low-precision kernels, planned, on this CPU",
    "fixed_sidebar": True,
    "page_width": "70rem",
}
html_show_sphinx = False
html_show_sourcelink = False
