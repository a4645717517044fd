"""Are the answers still as good: likelihood, divergence and agreement on the same tokens, with intervals."""
