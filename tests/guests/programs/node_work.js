// Workers, children, compression, hashes, timers, and garbage: the work of node's own threads.
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const { execFileSync, fork } = require('child_process');
const crypto = require('crypto');
const fs = require('fs');
const zlib = require('zlib');

const fib = (n) => (n < 2 ? n : fib(n - 1) + fib(n - 2));
if (!isMainThread) {
  parentPort.postMessage(fib(workerData));
} else if (process.argv[2] === 'child') {
  process.send(fib(20));
  process.disconnect();
} else {
  main();
}

async function main() {
  const workers = [24, 25, 26, 27].map((n) => new Promise((done, failed) => {
    const worker = new Worker(__filename, { workerData: n });
    worker.on('message', done);
    worker.on('error', failed);
  }));
  console.log('workers', (await Promise.all(workers)).join(' '));
  console.log('child', await new Promise((done) => fork(__filename, ['child']).on('message', done)));
  console.log('program', execFileSync('echo', ['hello']).toString().trim());
  const text = Buffer.from('abcdefgh'.repeat(200000));
  const packed = await Promise.all([...Array(8)].map(() => new Promise((done) => zlib.gzip(text, (_, out) => done(out.length)))));
  console.log('gzip', packed.join(' '));
  console.log('hash', crypto.createHash('sha256').update(text).digest('hex'));
  console.log('derived', crypto.pbkdf2Sync('secret', 'salt', 50000, 32, 'sha512').toString('hex'));
  let kept = [];
  for (let i = 0; i < 300000; i++) kept.push({ i, text: `row ${i}` });
  console.log('kept', kept.reduce((sum, row) => sum + row.text.length, 0));
  console.log('fib', fib(32));
  const status = fs.readFileSync('/proc/self/status', 'utf8').split('\n').filter((line) => /^(SigBlk|SigIgn|Umask|CapEff|Seccomp)/.test(line));
  console.log(status.join('\n'));
  console.log(fs.readFileSync('/proc/self/limits', 'utf8'));
}
if (isMainThread && process.argv[2] !== 'child') process.on('exit', (code) => console.log('exit', code));
