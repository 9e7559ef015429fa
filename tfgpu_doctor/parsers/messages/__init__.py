"""The messages that programs print when something fails: templates, a file for each layer. Pure."""
