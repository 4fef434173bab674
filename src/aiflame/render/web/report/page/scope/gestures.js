// Gestures on the heat map: drag from cell to cell, click, wheel.

const STILL = 4; // px that a click may move

/** `on`: {cellAt(x, y, clamp), hover(cell, x, y), drag(from, to, done), click(cell), zoom(factor, x), pan(columns)} */
export function listen(canvas, on) {
  let from = null;
  let moved = false;
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.x, event.clientY - box.y];
  };

  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    canvas.setPointerCapture(event.pointerId);
    from = place(event);
    moved = false;
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = place(event);
    on.hover(on.cellAt(x, y, false), x, y);
    if (!from) return;
    moved ||= Math.hypot(x - from[0], y - from[1]) > STILL;
    const start = on.cellAt(...from, false);
    if (moved && start) on.drag(start, on.cellAt(x, y, true), false);
  });
  canvas.addEventListener("pointerup", (event) => {
    if (!from) return;
    const start = on.cellAt(...from, false);
    if (!moved) on.click(start);
    else if (start) on.drag(start, on.cellAt(...place(event), true), true);
    from = null;
  });
  canvas.addEventListener("pointercancel", () => (from = null));
  canvas.addEventListener("pointerleave", () => on.hover(null, 0, 0));

  canvas.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      const [x] = place(event);
      const across = event.shiftKey && !event.deltaX ? event.deltaY : event.deltaX;
      if (Math.abs(across) > Math.abs(event.shiftKey ? 0 : event.deltaY)) on.pan(Math.sign(across) * Math.max(1, Math.round(Math.abs(across) / 30)));
      else on.zoom(event.deltaY > 0 ? 1.25 : 0.8, x);
    },
    { passive: false },
  );
}
