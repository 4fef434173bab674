// The slice that a person has chosen in the timeline, or the time that they have selected.

export class Choice {
  slice = null;
  range = null;
  #linked; // the link of an address; the slice that it means may have to be read first
  #moved = Promise.resolve(); // by the last key

  /** `shown`: the drawn {about, plan, view, closely}; `reveal(slice)` scrolls to it; `changed` is called after a new choice. */
  constructor(data, details, shown, { reveal, changed }) {
    this.data = data;
    this.details = details;
    this.shown = shown;
    this.reveal = reveal;
    this.changed = changed;
  }

  /** As an address has them. */
  async read(link, range) {
    this.#linked = link;
    this.slice = null;
    this.range = range;
    await this.findLinked();
    this.#tell();
  }

  get link() {
    return this.slice?.link ?? this.#linked ?? "";
  }

  /** Whether the slice of the address was found, now that more is there. */
  async findLinked() {
    const link = this.#linked;
    const found = link ? await this.data.ask("timeline.linked", { link }) : null;
    if (!found || link !== this.#linked) return;
    this.#set(found, this.range);
    this.reveal(found);
    this.#tell();
  }

  clear() {
    this.#set(null, null);
    this.#tell();
    this.changed();
  }

  async choose(row) {
    const slice = row < 0 ? null : await this.data.ask("timeline.slice", { row });
    if (!slice) return;
    this.#set(slice, null);
    this.reveal(slice);
    this.#tell();
    this.changed();
  }

  /** `done`: the hand is off. */
  mark(from, to, done) {
    const [begin, end] = from < to ? [from, to] : [to, from];
    this.#set(null, { begin: Math.max(0, begin), end: Math.min(this.shown.about.length, Math.max(end, begin + 1)) });
    if (done) this.#tell();
    this.changed();
  }

  before() {
    return this.#move(() => this.choose(this.slice?.before ?? -1));
  }

  after() {
    return this.#move(() => (this.slice ? this.choose(this.slice.after) : this.#first()));
  }

  above() {
    return this.#move(() => this.slice && this.#besides(-1));
  }

  below() {
    return this.#move(() => (this.slice ? this.#besides(1) : this.#first()));
  }

  /** One key after the other: each begins at the slice that the one before has chosen, whose answer may still be on its way. */
  #move(step) {
    const move = this.#moved.then(step);
    this.#moved = move.catch(() => {});
    return move;
  }

  async #first() {
    const [lane] = this.#lanes;
    if (lane !== undefined) await this.#nearest(lane, this.shown.view.begin);
  }

  async #besides(by) {
    const lane = this.#lanes[this.#lanes.indexOf(this.slice.lane) + by];
    const { begin, end } = this.shown.view;
    if (lane !== undefined) await this.#nearest(lane, (Math.max(this.slice.begin, begin) + Math.min(this.slice.end, end)) / 2);
  }

  async #nearest(lane, time) {
    await this.choose(await this.data.ask("timeline.nearest", { lane, time, closely: this.shown.closely }));
  }

  get #lanes() {
    return this.shown.plan.rows.filter((row) => row.lane !== undefined).map((row) => row.lane);
  }

  #set(slice, range) {
    this.#linked = undefined;
    this.slice = slice;
    this.range = range;
  }

  /** Below the picture, and aloud. */
  #tell() {
    const { about } = this.shown;
    if (this.slice) this.details.slice(about, this.slice);
    else if (this.range) this.details.range(about, this.range);
    else this.details.nothing();
  }
}
