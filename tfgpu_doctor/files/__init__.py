"""The only code that opens files which a user, a variable or another file names."""
