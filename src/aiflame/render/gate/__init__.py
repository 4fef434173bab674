"""The result of a gate for CI systems: Markdown for people, JUnit XML for lists of tests."""
