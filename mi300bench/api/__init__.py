"""One function a command, for Python: measure, read, tune, compare, lint, report, export. Commands parse, call one of these, print."""
