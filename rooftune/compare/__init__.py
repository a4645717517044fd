"""Before against after: statistics of rounds, decisions, side effects, the verdict (DESIGN section 6)."""
