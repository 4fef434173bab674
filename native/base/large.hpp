// Large tables are apart from small variables, so that the latter share a few pages: each touched page costs a process 3 to 5 µs, and the child of a
// fork again, and most processes touch no large table.
#pragma once

#define AIFLAME_LARGE [[gnu::section(".bss.large")]]

// The one large table whose beginning every process touches; it follows the small variables.
#define AIFLAME_LARGE_FIRST [[gnu::section(".bss.first")]]
