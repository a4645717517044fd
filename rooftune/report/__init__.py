"""What a Result looks like: JSON, a self-contained page, the terminal, Markdown, and a configuration to serve with."""
