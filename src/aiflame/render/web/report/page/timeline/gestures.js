// Gestures on the timeline's canvas: drag, wheel, pinch, click and double click, with positions on the canvas.

const STILL = 4; // px that a click may move

/**
 * @param {HTMLCanvasElement} canvas
 * @param {Record<string, (...given: any[]) => any>} on
 *   `pan(dx, dy), zoom(factor, x), click(x, y), fit(x, y), hover(x, y), leave(), mark(from, to, done), scroll(dy), marks(x, y, event)`;
 *   `marks`: whether a drag that begins there marks a range
 */
export function listen(canvas, on) {
  const down = new Map();
  let drag = null;
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.x, y: event.clientY - box.y };
  };

  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    canvas.setPointerCapture(event.pointerId);
    const at = place(event);
    down.set(event.pointerId, at);
    drag = down.size === 1 ? { from: at, last: at, marks: on.marks(at.x, at.y, event), moved: false } : null;
  });

  canvas.addEventListener("pointermove", (event) => {
    const at = place(event);
    if (!down.has(event.pointerId)) {
      on.hover(at.x, at.y);
      return;
    }
    if (down.size === 2) pinch(event.pointerId, at);
    else if (drag) follow(at);
    down.set(event.pointerId, at);
  });

  function follow(at) {
    drag.moved ||= Math.hypot(at.x - drag.from.x, at.y - drag.from.y) > STILL;
    if (!drag.moved) return;
    if (drag.marks) on.mark(drag.from.x, at.x, false);
    else on.pan(at.x - drag.last.x, at.y - drag.last.y);
    drag.last = at;
  }

  /** The finger that did not move stays where it is. */
  function pinch(moved, at) {
    const [still] = [...down].filter(([id]) => id !== moved).map(([, where]) => where);
    const before = Math.max(20, Math.abs(down.get(moved).x - still.x));
    on.zoom(before / Math.max(20, Math.abs(at.x - still.x)), still.x);
  }

  canvas.addEventListener("pointerup", (event) => {
    const at = place(event);
    down.delete(event.pointerId);
    if (drag && !drag.moved) on.click(at.x, at.y);
    else if (drag?.marks) on.mark(drag.from.x, at.x, true);
    drag = null;
  });
  canvas.addEventListener("pointercancel", (event) => {
    down.delete(event.pointerId);
    drag = null;
  });
  canvas.addEventListener("pointerleave", () => on.leave());
  canvas.addEventListener("dblclick", (event) => {
    const { x, y } = place(event);
    on.fit(x, y);
  });

  canvas.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      const { x, y } = place(event);
      const unit = event.deltaMode === 1 ? 24 : 1;
      const [across, along] = [event.deltaX * unit, event.deltaY * unit];
      if (event.shiftKey && !across) on.pan(-along, 0);
      else if (Math.abs(across) > Math.abs(along)) on.pan(-across, 0);
      else if (on.scrolls(x, y)) on.scroll(along);
      else on.zoom(Math.exp(Math.max(-120, Math.min(120, along)) * 0.0025), x);
    },
    { passive: false },
  );
}
