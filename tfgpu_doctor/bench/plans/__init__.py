"""What each workload measures: cases, sizes, references. The parent's side."""
