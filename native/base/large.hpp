// Large tables lie apart from small variables, which so share a few pages: a page that is touched costs a process 3 to 5 µs, and the child of
// a fork again, and most processes touch no large table.
#pragma once

#define AIFLAME_LARGE [[gnu::section(".bss.large")]]

// The one large table of which every process touches the beginning: right behind the small variables.
#define AIFLAME_LARGE_FIRST [[gnu::section(".bss.first")]]
