"""Where prompts come from: one file a source."""
