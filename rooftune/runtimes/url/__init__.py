"""A server that is there already: it may be loaded and observed, never started, changed or stopped."""
