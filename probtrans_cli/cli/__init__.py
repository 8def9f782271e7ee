"""The command line: signatures and help."""
