// A program to attach to; see turns.py. SIGUSR1 belongs to node's debugger: this one answers SIGUSR2.
let longest = 0, sink = 0;
function turn(size) { let total = 0; for (let number = 0; number < size * 200000; number++) total = (total + number * number) % 1000003; sink = total; }
function light() { turn(3); }
function heavy() { turn(9); }
process.on("SIGUSR2", () => { console.log(longest.toFixed(3)); longest = 0; });
console.log("begun");
let before = performance.now();
function next() {
  for (const work of [light, heavy]) {
    work();
    const now = performance.now();
    longest = Math.max(longest, now - before);
    before = now;
  }
  setImmediate(next);
}
next();
