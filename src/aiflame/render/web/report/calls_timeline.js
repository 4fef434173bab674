// What the worker answers for the view timeline.

import { Spans } from "./timeline_spans.js";

let reading;

function spans(blocks) {
  reading ??= blocks.get("timeline").then((block) => new Spans(block));
  return reading;
}

/** Times are ns after the timeline's origin. */
export const TIMELINE_CALLS = {
  /** Tracks, lanes, kinds and names: asked once. */
  "timeline.about": async (blocks) => (await spans(blocks)).about(),

  /** What is to be drawn of some lanes in a stretch of time, when a pixel is `pixel` ns wide. */
  "timeline.view": async (blocks, given) => (await spans(blocks)).view(given),

  /** All that is known of a slice. */
  "timeline.slice": async (blocks, { row }) => (await spans(blocks)).slice(row),

  /** The slice of a lane that is nearest to a time, -1: the lane has none. */
  "timeline.nearest": async (blocks, { lane, time }) => (await spans(blocks)).nearest(lane, time),

  /** Begin and end of the step (or of what else is nearest to being one) around a time; null: none. */
  "timeline.step": async (blocks, { time }) => (await spans(blocks)).step(time),

  /** What ran on devices in a stretch of time, by name, and how busy each stream was. */
  "timeline.totals": async (blocks, { begin, end, most }) => (await spans(blocks)).totals(begin, end, most),
};
