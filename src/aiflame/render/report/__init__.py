"""The report: the page, its blocks of data, and the server that hands them out."""
