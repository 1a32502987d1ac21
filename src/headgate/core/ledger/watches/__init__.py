"""Watches: files that publish chunks. Which file belongs to which chunk, when it counts, and what a change means.

`model` has the nouns, `names` matches file names with a pattern, `parsing` reads the definition of a watch, and
`gathering` decides which files make a chunk.
"""
