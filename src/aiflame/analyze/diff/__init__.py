"""Two profiles of one program compared step by step."""
