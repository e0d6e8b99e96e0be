"""Commands that read records: questions, comparisons, checks, imports, the report."""
