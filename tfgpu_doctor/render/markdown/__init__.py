"""Markdown for issues and job summaries."""
