"""Where objects are kept: OCFL in a folder or a bucket, or a storage behind HTTP."""
