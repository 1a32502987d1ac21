"""Watches: files that publish chunks. Which file belongs to which chunk, when it counts, and what a change means.

`model` has the nouns, `names` reads names of files by a pattern, `parsing` reads a watch as people write it, and
`gathering` decides which files make a chunk.
"""
