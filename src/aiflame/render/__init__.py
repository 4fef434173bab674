"""Shows results as text, pages and files. Nothing here computes more than its layout."""
