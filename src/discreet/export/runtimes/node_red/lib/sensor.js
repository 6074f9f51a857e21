// A sensor at work: table and ledger. What is counted depends on the schedule alone.
"use strict";
const { BLOCK } = require("./health");
const { readIfThere, writeWhole } = require("./files");
const { NONE, REPEAT, crc32 } = require("./table");

const MAGIC = 0x324c5344, SIZE = 76, HOUR = 3600;
const EMPTY = { tag: "0".repeat(16), elapsed: 0, mark: 0, spent: 0, draws: 0, held: NONE, key: "0".repeat(64), first: "0".repeat(16) };

function pack(record) {
  const data = Buffer.alloc(SIZE);
  data.writeUInt32LE(MAGIC, 0);
  data.write(record.tag, 4, "hex");
  ["elapsed", "mark", "spent", "draws", "held"].forEach((name, i) => data.writeUInt32LE(record[name], 12 + 4 * i));
  data.write(record.key, 32, "hex");
  data.write(record.first, 64, "hex");
  data.writeUInt32LE(crc32(data.subarray(0, 72)), 72);
  return data;
}

// What was stored. A damaged record counts as spent.
function unpack(data) {
  if (data.length !== SIZE || data.readUInt32LE(0) !== MAGIC || data.readUInt32LE(72) !== crc32(data.subarray(0, 72)))
    return { ...EMPTY, spent: NONE };
  const [elapsed, mark, spent, draws, held] = [12, 16, 20, 24, 28].map((at) => data.readUInt32LE(at));
  return { tag: data.toString("hex", 4, 12), elapsed, mark, spent, draws, held, key: data.toString("hex", 32, 64), first: data.toString("hex", 64, 72) };
}

class Sensor {
  // makeNew: whether to begin a ledger if there is none, once, when the device is set up.
  constructor(table, file, source, makeNew) {
    Object.assign(this, { table, file, source, running: false });
    const stored = readIfThere(file);
    if (stored === null && !makeNew)
      throw new Error(`${file}: there is no ledger, and a lost one must not refill the budget. Enrol the device again.`);
    this.record = stored === null ? { ...EMPTY } : unpack(stored);
    source.start(this.record.first);
    this.stored = this.record.elapsed;
    this.memory = table.remembered(Buffer.from(this.record.key, "hex"));
    if (stored === null) this.store(this.record);
  }

  get spent() { return this.record.spent; }

  // One counted symbol for each row, in order. uptime: seconds on a clock that nobody else can set.
  releaseRows(rows, uptime) {
    this.pass(uptime);
    const turned = this.turned();
    const [charged, answered] = this.charged(turned, rows.length);
    const told = rows.slice(0, answered), idle = Array(rows.length - answered).fill(this.table.rows - 1);
    if (!answered) return this.table.draw(idle, this.source); // not worth a write
    const next = { ...charged };
    let memory = next.key === this.record.key ? this.memory : this.table.remembered(Buffer.from(next.key, "hex"));
    if (this.table.repeat === REPEAT.PERIOD) {
      if (next.held === NONE) next.held = memory[told[0]];
      memory = Array(this.table.rows).fill(next.held);
    }
    const fresh = this.table.repeat === REPEAT.NEVER;
    const symbols = fresh ? this.table.draw(told, this.source) : told.map((row) => memory[row]);
    const all = idle.length ? symbols.concat(this.table.draw(idle, this.source)) : symbols;
    if (changed(next, this.record) || this.isLate()) this.store(next); // before any symbol is handed out
    this.memory = memory;
    return all;
  }

  // Count how long the period has lasted, never more than has passed.
  pass(uptime) {
    let more = uptime - this.record.mark;
    if (more < 0) more = this.running ? 0 : uptime;
    this.record = { ...this.record, elapsed: Math.min(NONE, this.record.elapsed + more), mark: uptime };
    this.running = true;
  }

  isLate() { return this.record.elapsed - this.stored >= Math.max(HOUR, Math.floor(this.table.period / 8)); }

  turned() {
    const sound = this.record.held === NONE || this.record.held < this.table.symbols;
    if (this.record.elapsed < this.table.period && sound && this.record.tag === this.table.tag) return this.record;
    const key = this.source.bytes(BLOCK).toString("hex", 0, BLOCK);
    return { ...this.record, tag: this.table.tag, elapsed: 0, draws: 0, held: NONE, key };
  }

  // The record after some releases, and how many may depend on the reading.
  charged(record, count) {
    let owed = count;
    if (this.table.repeat === REPEAT.CODE) owed = Math.min(count, Math.max(0, this.table.rows - record.draws));
    if (this.table.repeat === REPEAT.PERIOD) owed = Math.min(count, Number(record.held === NONE));
    const paid = Math.min(owed, this.affordable(record.spent, owed));
    const spent = Math.min(NONE, record.spent + paid * this.table.epsilon);
    return [{ ...record, spent, draws: Math.min(NONE, record.draws + paid) }, paid === owed ? count : paid];
  }

  affordable(spent, wanted) {
    if (this.table.budget === NONE) return wanted;
    const room = this.table.budget - spent;
    if (room < 0) return 0;
    return this.table.epsilon ? Math.floor(room / this.table.epsilon) : wanted;
  }

  // Count what was told before the state of the device was lost.
  spend(floor) { if (this.record.spent < floor) this.store({ ...this.record, spent: floor }); }

  store(record) {
    const next = { ...record, first: this.source.health.first };
    writeWhole(this.file, pack(next));
    this.record = next;
    this.stored = next.elapsed;
  }
}

function changed(a, b) { return Object.keys(EMPTY).some((name) => a[name] !== b[name]); }

module.exports = { Sensor, pack, unpack };
