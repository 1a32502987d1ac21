"""Storage of objects: OCFL in a folder or a bucket, or a storage behind HTTP."""
