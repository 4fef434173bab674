"""`aiflame agent`: finds processes as they start, records short windows of them within a budget, and adds these to a store."""
