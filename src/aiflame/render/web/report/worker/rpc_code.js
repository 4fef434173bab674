// The worker's answers for the view code: `kernels` (the list), `kernel` (places and instructions of one), `text` (lines of a
// file); and those for the view source: `sources` (files, and the lines of each that took time).

import { kernelOf } from "./code_model.js";

export const CODE_CALLS = {
  async kernels(blocks) {
    const { head, columns } = await blocks.get("code");
    const kernels = columns.name.map((name, number) => ({
      number,
      name,
      short: columns.short[number],
      full: columns.full[number],
      launches: columns.launches[number],
      time: columns.gpu_time_ns[number],
      samples: columns.samples[number],
    }));
    return { pages: head.pages, of: head.of, time: head.gpu_time_ns, samples: head.samples, kernels };
  },

  async kernel(blocks, { number }) {
    return kernelOf(await blocks.get(`code.${number}`));
  },

  async sources(blocks, { metric }) {
    const { head, columns } = await blocks.get(`source.${metric}`);
    const files = head.files.map((file) => ({ ...file, lines: [] }));
    for (let row = 0; row < columns.line.length; row++) {
      files[columns.file[row]].lines.push({
        line: columns.line[row],
        function: columns.name[columns.function[row]],
        self: columns.self[row],
        total: columns.total[row],
      });
    }
    return { metric: head.metric, label: head.label, unit: head.unit, total: head.total, files };
  },

  async text(blocks, { number }) {
    return (await blocks.get(`text.${number}`)).columns.line;
  },
};
