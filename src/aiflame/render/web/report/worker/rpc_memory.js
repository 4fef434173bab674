// The worker's answer for the map of memory.

export const MEMORY_CALLS = {
  /** For each moment its memories, each with its segments and their blocks. */
  async memory(blocks) {
    const { head, columns } = await blocks.get("memory");
    const moments = head.moments.map((moment) => {
      const column = (name) => columns[`${moment.name}.${name}`];
      const segments = Array.from(column("bytes"), (bytes, at) => ({
        bytes, used: column("used")[at], largest: column("largest")[at], stream: head.streams[column("stream")[at]], blocks: [],
      }));
      column("segment").forEach((segment, at) => {
        segments[segment].blocks.push({
          offset: column("offset")[at],
          bytes: column("size")[at],
          category: head.categories[column("category")[at]],
          layer: head.layers[column("layer")[at]],
          line: head.lines[column("line")[at]],
        });
      });
      const memories = moment.memories.map((memory, number) => ({ ...memory, segments: segments.filter((_, at) => column("owner")[at] === number) }));
      return { ...moment, memories };
    });
    return { categories: head.categories, moments };
  },
};
