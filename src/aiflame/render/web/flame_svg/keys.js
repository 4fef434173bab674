// The keyboard. Letters act only without Ctrl, Alt and Meta, so that the browser keeps its own.

const KEYS = {
  "/": (app) => focusSearch(app),
  h: (app) => app.act.help(),
  "?": (app) => app.act.help(),
  d: (app) => app.act.theme(),
  i: (app) => app.act.flip(),
  o: (app) => app.act.order(),
  m: (app) => app.act.matchCase(),
  b: (app) => app.model.differential && app.act.metric(),
  u: (app) => app.undo(),
  Backspace: (app) => app.undo(),
  0: (app) => app.act.reset(),
  Escape: (app) => leave(app),
  n: (app) => toMatch(app, 1),
  N: (app) => toMatch(app, -1),
  c: (app) => app.copy(app.model.fullName(current(app))),
  C: (app) => app.copy(app.model.stack(current(app)).join(";")),
};

const FRAME_KEYS = {
  Enter: (app) => app.go({ zoom: app.chart.focus }),
  " ": (app) => app.go({ zoom: app.chart.focus }),
  ArrowLeft: (app) => app.chart.beside(app.chart.focus, -1),
  ArrowRight: (app) => app.chart.beside(app.chart.focus, 1),
  ArrowUp: (app) => (app.chart.inverted ? caller(app) : app.model.widestChild(app.chart.focus)),
  ArrowDown: (app) => (app.chart.inverted ? app.model.widestChild(app.chart.focus) : caller(app)),
  Home: () => 0,
};

export function onKey(app, event) {
  // A second Ctrl F is the browser's own.
  if ((event.ctrlKey || event.metaKey) && event.key === "f" && event.target !== app.header.search) {
    event.preventDefault();
    focusSearch(app);
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.localName === "input") return;
  const onButton = event.target.localName === "button";
  const frameKey = onButton ? undefined : FRAME_KEYS[event.key];
  if (frameKey) {
    event.preventDefault();
    const node = frameKey(app);
    if (node >= 0) app.chart.focusOn(node);
  } else if (KEYS[event.key]) {
    event.preventDefault();
    KEYS[event.key](app);
  }
}

function current(app) {
  return app.hovered ?? app.chart.focus;
}

function caller(app) {
  return app.chart.focus === 0 ? -1 : app.model.shown(app.model.parent[app.chart.focus]);
}

function focusSearch(app) {
  app.header.search.focus();
  app.header.search.select();
}

function leave(app) {
  if (app.help.open) app.showHelp(false);
  else if (app.state.zoom !== 0) app.go({ zoom: 0 });
  else app.go({ search: "", lit: [], hidden: [] });
}

// The next match, in depth-first order, that is drawn in the zoomed part.
function toMatch(app, step) {
  const { chart, model } = app;
  if (!chart.found) return;
  const [low, high] = [chart.zoom, model.after[chart.zoom]];
  const count = high - low;
  for (let moved = 1; moved <= count; moved++) {
    const node = low + ((((chart.focus - low + step * moved) % count) + count) % count);
    if (chart.found[node] && model.row[node] >= 0) {
      chart.focusOn(node);
      app.tell(node);
      return;
    }
  }
}
