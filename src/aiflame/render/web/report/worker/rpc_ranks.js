// The worker's answers for the view ranks; its tables come by the same calls as those of the view tables.

export const RANK_CALLS = {
  /** The view's contents: sentences, notes, quantities of the map, the columns of steps, and each step's critical path in short. */
  "ranks.about": async (blocks) => {
    const { head, columns } = await blocks.get("ranks");
    const { tables, columns: _, ...told } = head;
    const path = ["step", "begin", "took", "communication"].map((name) => [name, columns[`path.${name}`]]);
    return { ...told, first: columns["map.first"] ?? [], paths: Object.fromEntries(path) };
  },

  /** A quantity for each rank and column of steps, a rank after the other: µs + 1, 0 where a rank has none. */
  "ranks.map": async (blocks, { name }) => (await blocks.get("ranks")).columns[`map.${name}`],

  /** The critical path of a step (row of `paths`): its stretches, and each rank's time on it. */
  "ranks.path": async (blocks, { row }) => {
    const { columns } = await blocks.get("ranks");
    const part = (table, counts, names) => {
      const from = sum(columns[counts], row);
      return Object.fromEntries(names.map((name) => [name, columns[`${table}.${name}`].slice(from, from + columns[counts][row])]));
    };
    return {
      stretches: part("stretch", "path.stretches", ["rank", "does", "begin", "took"]),
      work: part("work", "path.ranks", ["rank", "took"]),
    };
  },
};

function sum(values, until) {
  let total = 0;
  for (let at = 0; at < until; at++) total += values[at];
  return total;
}
