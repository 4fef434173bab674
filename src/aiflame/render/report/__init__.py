"""The report: its page, its blocks of data, and the server for both."""
