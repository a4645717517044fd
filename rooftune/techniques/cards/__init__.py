"""One file a technique."""
