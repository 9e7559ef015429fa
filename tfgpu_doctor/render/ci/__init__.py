"""Formats that CI systems read: JUnit XML, GitHub's workflow commands, SARIF."""
