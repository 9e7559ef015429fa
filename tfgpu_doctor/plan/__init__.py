"""What to install on a machine, ranked, with complete commands. Pure."""
