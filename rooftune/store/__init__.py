"""What is kept: records, runs, trials, verdicts."""
