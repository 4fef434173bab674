// Texts that leave the page for a terminal or a spreadsheet, as exchange/writers/collapsed.py and csv.py clean them.

/** Control characters, and those that turn the direction of writing. A terminal acts on them where they are pasted. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the page replaces them
const MOVES_THE_CURSOR = /[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** @param {string} text */
export const plainText = (text) => text.replace(MOVES_THE_CURSOR, " ");
