"""The embedded engine as a runtime: started as a server in its own process."""
