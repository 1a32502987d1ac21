"""How the site is built: `make docs` runs Sphinx with every warning as an error."""

project = "Headgate"
copyright = "Headgate's authors"  # noqa: A001 - Sphinx wants this name
html_title = "Headgate"
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_copyright = False
html_show_sphinx = False

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
# Every heading of a page can be linked to.
myst_heading_anchors = 4
nitpicky = True
pygments_style = "default"
