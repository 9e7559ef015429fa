"""Formats that CI systems read: JUnit XML and GitHub's workflow commands."""
