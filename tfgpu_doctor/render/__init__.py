"""Pure Report | BenchResult → text, a file a format."""
