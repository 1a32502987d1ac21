"""Pages about datasets, jobs and chunks."""
