// The worker's answers for the view timeline.

import { readBlock } from "../../blocks.js";
import { RefinedTimeline } from "./refined_timeline.js";

let reading;

function timeline(blocks) {
  reading ??= blocks.get("timeline").then((block) => new RefinedTimeline(block));
  return reading;
}

/** Times are ns after the timeline's origin. */
export const TIMELINE_CALLS = {
  /** Tracks, lanes, kinds and names: the page asks once, and timeline.add returns them again. */
  "timeline.about": async (blocks) => (await timeline(blocks)).about(),

  /** The pieces to draw of some lanes in a stretch of time, when a pixel is `pixel` ns wide. */
  "timeline.view": async (blocks, given) => (await timeline(blocks)).view(given),

  /** Whether a stretch can be shown closer than the block has it, and the stretch that a server must read then. */
  "timeline.closer": async (blocks, given) => (await timeline(blocks)).closer(given),

  /** A stretch that was read closer. */
  "timeline.add": async (blocks, { bytes }) => (await timeline(blocks)).add(await readBlock(bytes)),

  /** All facts of a slice. */
  "timeline.slice": async (blocks, { row }) => (await timeline(blocks)).slice(row),

  /** The slice that a link means, null: it is not here. */
  "timeline.linked": async (blocks, { link }) => (await timeline(blocks)).linked(link),

  /** The slice of a lane that is nearest to a time, -1: the lane has none. */
  "timeline.nearest": async (blocks, { lane, time, closely }) => (await timeline(blocks)).nearest(lane, time, closely),

  /** Begin and end of the step around a time (without steps, of the slice nearest to one); null: none. */
  "timeline.step": async (blocks, { time }) => (await timeline(blocks)).step(time),

  /** The work on devices in a stretch of time, by name, and how busy each stream was. */
  "timeline.totals": async (blocks, { begin, end, most }) => (await timeline(blocks)).totals(begin, end, most),
};
