"""The analyses that people know by the names of other tools: HTA, nsys, torch and TraceLens; a module for each tool."""
