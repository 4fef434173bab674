"""Chrome's JSON, in which torch.profiler and many others write their traces."""
