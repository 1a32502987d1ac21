"""How the site is built: `make docs` runs Sphinx with every warning as an error."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

project = "Headgate"
copyright = "Headgate's authors"  # noqa: A001 - Sphinx wants this name
html_title = "Headgate"
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_copyright = False
html_show_sphinx = False

extensions = ["myst_parser", "sphinx.ext.autodoc", "tools.python_reference"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
# Every heading of a page can be linked to.
myst_heading_anchors = 4
nitpicky = True
# Types of Headgate must be in the reference; those of Python and other packages need not be.
nitpick_ignore_regex = [(r"py:.*", r"(?!headgate\.).*")]
pygments_style = "default"

# Text in single backticks is code, as in Markdown.
default_role = "code"
add_module_names = False
toc_object_entries = False
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
