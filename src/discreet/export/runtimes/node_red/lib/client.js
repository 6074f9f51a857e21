// A client of a discreet site: readings in, a message for every batch of rounds out.
"use strict";
const { EventEmitter } = require("node:events");
const crypto = require("node:crypto");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const mqtt = require("mqtt");
const { Source } = require("./health");
const { MOST, Outbox } = require("./outbox");
const { Sensor } = require("./sensor");
const { Table, verified } = require("./table");
const { STOPPED, STORED, decodeAck, encode } = require("./wire");

const NAME = /^[a-z0-9][a-z0-9-]{0,31}$/, KEY = /^[0-9a-f]{64}$/, HOST = /^[A-Za-z0-9:][A-Za-z0-9.:-]{0,252}$/, MAX_BYTES = 64 * 2 ** 20;
const WINDOW = 100, PUBACK_MS = 10000, TICK_MS = 100, SLOT_MS = 200, BACK_ROUNDS = 3;
// While the clock is in doubt: rounds in which the site may take what waits, and the time for a connection to it.
const ANSWER_ROUNDS = 5, OFFLINE_MS = 600000;

const fits = (value, pattern) => typeof value === "string" && pattern.test(value); // test() alone takes null for "null"
const whole = (value, least, most) => Number.isInteger(value) && value >= least && value <= most;

function readEnrolment(file) {
  if (fs.statSync(file).size > MAX_BYTES) throw new Error(`${file} is too large for an enrolment.`);
  const wrong = (what) => { throw new Error(`${file}: ${what}. Enrol the device again.`); };
  let found;
  try {
    found = JSON.parse(fs.readFileSync(file, "utf8"));
  } catch {
    return wrong("this is no enrolment");
  }
  if (found === null || found.format !== "discreet-enrolment" || found.version !== 1) wrong("this is no enrolment of this version");
  if (!fits(found.site, NAME) || !fits(found.client, NAME)) wrong("the names make no sense");
  if (!whole(found.batch, 1, 65535) || !whole(found.epoch, 0, 2 ** 40 - 1) || typeof found.interval !== "number" || !(found.interval > 0) || found.interval > 86400) wrong("the rounds make no sense");
  if (!whole(found.boot, 0, 2 ** 63) || !whole(found.spent, 0, 2 ** 32 - 1)) wrong("boot or spent makes no sense");
  if (!Array.isArray(found.sensors) || found.sensors.length !== found.bundles?.length || !found.sensors.length) wrong("the sensors make no sense");
  if (![found.mac_key, found.public_key, found.previous_key ?? found.mac_key].every((each) => fits(each, KEY)) || !fits(found.mapping, /^sha256:[0-9a-f]{64}$/)) wrong("the keys make no sense");
  if (!fits(found.broker?.host, HOST) || !whole(found.broker.port, 1, 65535) || !["5", "3.1.1"].includes(found.broker.mqtt)) wrong("the broker makes no sense");
  if (found.sensors.length * found.batch > 65535) wrong("there are too many symbols");
  if (!found.broker.tls && !["127.0.0.1", "::1", "localhost"].includes(found.broker.host)) wrong("it has no TLS");
  const topic = `discreet/v1/${found.site}/${found.client}`;
  const keys = [found.mac_key, found.previous_key].filter(Boolean).map((each) => Buffer.from(each, "hex"));
  return { ...found, topic: `${topic}/z`, ackTopic: `${topic}/ack`, keys, symbols: found.sensors.length * found.batch };
}

// Events: status (text), sent (message), acknowledged (message), refused (message), stopped, problem (text).
class Client extends EventEmitter {
  // clock: gives milliseconds of UTC, steady ones that nobody sets; clocks and source are replaced in tests only.
  constructor(file, folder, { clock = Date.now, steady = () => performance.now(), uptime = () => Math.floor(os.uptime()), source = new Source(), maxAge = 0, most = MOST } = {}) {
    super();
    this.enrolment = readEnrolment(file);
    Object.assign(this, { clock, steady, uptime, maxAge: 1000 * maxAge, readings: new Map(), rows: new Map() });
    const tables = this.enrolment.sensors.map((name, i) => this.verify(name, i)); // before anything is written
    fs.mkdirSync(folder, { recursive: true, mode: 0o700 });
    this.outbox = new Outbox(folder, this.enrolment, clock(), most);
    this.sensors = tables.map((table) => this.open(folder, table, source));
    this.mapping = Buffer.from(this.enrolment.mapping.replace("sha256:", ""), "hex").subarray(0, 8);
    if (this.spent < this.enrolment.spent) this.sensors.forEach((each) => each.spend(this.enrolment.spent));
    this.next = this.roundAt(clock());
    Object.assign(this, { stopped: false, connection: null, pause: 200, connectAt: 0, told: "", doubt: null });
  }

  verify(name, i) {
    const body = verified(Buffer.from(this.enrolment.bundles[i], "base64"), Buffer.from(this.enrolment.public_key, "hex"));
    const table = new Table(body);
    if (table.name !== name || `sha256:${table.mapping.toString("hex")}` !== this.enrolment.mapping)
      throw new Error(`the bundle for ${name} is of another sensor or mapping. Enrol the device again.`);
    return table;
  }

  open(folder, table, source) {
    const stem = crypto.createHash("sha256").update(table.name).digest("hex").slice(0, 16);
    const file = path.join(folder, `${stem}.ledger`);
    // A ledger is begun when this folder is new, or where the table has no budget to lose.
    return new Sensor(table, file, source, this.outbox.isNew || table.budget === 0xffffffff);
  }

  get spent() { return Math.max(...this.sensors.map((each) => each.spent)); }
  // The share of the budget that is left, of the sensor that has least; null without a budget.
  get left() {
    const shares = this.sensors.filter((each) => each.table.budget !== 0xffffffff).map((each) => Math.max(0, 1 - each.spent / each.table.budget));
    return shares.length ? Math.min(...shares) : null;
  }

  roundAt(ms) { return Math.floor((ms / 1000 - this.enrolment.epoch) / this.enrolment.interval + 1e-9); }
  endOf(round) { return 1000 * (this.enrolment.epoch + (round + 1) * this.enrolment.interval); }

  // The newest reading of a sensor; it counts until the next, or for maxAge.
  read(name, value) {
    if (!this.enrolment.sensors.includes(name))
      throw new Error(`${name} is no sensor of ${this.enrolment.client}. There are: ${this.enrolment.sensors.join(", ")}.`);
    this.readings.set(name, { value, at: this.clock() });
  }

  start() {
    this.ticking = setInterval(() => this.tick(), TICK_MS);
    this.tick();
  }

  async stop() {
    clearInterval(this.ticking);
    const connection = this.connection;
    this.connection = null;
    if (connection) await new Promise((done) => connection.end(true, {}, done));
  }

  tick() {
    this.guard(() => this.follow(this.clock()));
    this.pump(this.clock());
  }

  // Nothing was released or forgotten if it fails: the next batch or answer is another try.
  guard(work) {
    try {
      work();
    } catch (error) {
      if (error.message !== this.told) this.emit("problem", error.message);
      this.told = error.message;
    }
  }

  // Take the readings of every round that has ended, and draw where a batch has.
  follow(now) {
    const round = this.roundAt(now), { batch } = this.enrolment;
    const reached = Math.max(this.next, this.outbox.state.last + 1); // before the last start, perhaps
    if (round < 0) return; // the clock is not set yet
    if (round < reached - batch - BACK_ROUNDS) { // the clock was wrong before, or is now
      if (this.mayBeBehind(round)) return;
      this.emit("problem", "the clock was ahead; going on with the present round");
      this.outbox.stepBack(round);
    }
    if (this.doubt || this.next < 0) this.startAt(round);
    if (round - this.next > batch) { // rounds that were slept through; the batch in which that began has its message
      this.rows.set(this.next, this.rowsNow(this.endOf(this.next)));
      this.release(this.next - (this.next % batch));
      this.next = round;
    }
    while (this.next < round) {
      const ended = this.next++;
      this.rows.set(ended, this.rowsNow(this.endOf(ended)));
      if (ended % batch === batch - 1) this.release(ended - batch + 1);
    }
  }

  startAt(round) {
    this.rows.clear();
    this.doubt = null;
    this.next = round;
  }

  // A clock that is behind after a start is no reason to give up what waits: the site takes that, unless it is for rounds to come.
  mayBeBehind(round) {
    const steady = this.steady();
    this.doubt ||= { since: steady, seen: steady, connected: 0 };
    if (this.ready) this.doubt.connected += steady - this.doubt.seen;
    this.doubt.seen = steady;
    return this.outbox.waiting.some((each) => each.round >= round) && steady - this.doubt.since < OFFLINE_MS &&
      this.doubt.connected < 1000 * ANSWER_ROUNDS * this.enrolment.interval;
  }

  rowsNow(end) {
    return this.sensors.map(({ table }) => {
      const reading = this.readings.get(table.name);
      const fresh = reading && (!this.maxAge || end - reading.at <= this.maxAge);
      return table.row(fresh ? reading.value : null);
    });
  }

  release(first) {
    const { batch } = this.enrolment, width = this.sensors.length, symbols = Buffer.alloc(width * batch);
    const rounds = Array.from({ length: batch }, (_, i) => this.rows.get(first + i) || this.sensors.map(({ table }) => table.row(null)));
    this.rows.clear();
    if (first < 0 || first <= this.outbox.state.last || this.stopped) return;
    this.sensors.forEach((sensor, t) => {
      const drawn = sensor.releaseRows(rounds.map((rows) => rows[t]), this.uptime());
      drawn.forEach((symbol, i) => { symbols[i * width + t] = symbol; });
    });
    const { topic, keys } = this.enrolment, { spent, mapping } = this;
    const message = this.outbox.append(first, first + batch - 1, (boot, seq) => encode({ boot, seq, round: first, spent, symbols, mapping }, keys[0], topic));
    // A fixed moment that neither the reading nor the work it takes can shift.
    message.notBefore = this.endOf(first + batch - 1) + Math.min(SLOT_MS, 250 * this.enrolment.interval);
    this.told = "";
    this.emit("released", message);
  }

  // --- The connection ------------------------------------------------------------------------

  connect(now) {
    const { broker, client, ca, certificate, key, ackTopic } = this.enrolment;
    const tls = broker.tls ? { protocol: "mqtts", ca, cert: certificate, key, rejectUnauthorized: true, minVersion: "TLSv1.2" } : { protocol: "mqtt" };
    const connection = mqtt.connect({
      host: broker.host, port: broker.port, clientId: client, clean: true, keepalive: 30, reconnectPeriod: 0,
      protocolVersion: broker.mqtt === "5" ? 5 : 4, connectTimeout: 10000, resubscribe: false, queueQoSZero: false, ...tls,
    });
    this.connection = connection;
    this.connectAt = now + this.pause * (0.5 + Math.random() / 2);
    this.pause = Math.min(10000, 2 * this.pause);
    connection.on("connect", () => connection.subscribe(ackTopic, { qos: 0 }, (error) => {
      if (error || this.connection !== connection) return this.drop(connection);
      this.pause = 200;
      this.ready = true;
      for (const each of this.outbox.waiting) Object.assign(each, { sentAt: 0, taken: false });
      this.emit("status", "connected");
      return this.pump(this.clock());
    }));
    connection.on("message", (topic, data) => { if (topic === ackTopic) this.guard(() => this.acknowledge(data)); });
    connection.on("error", (error) => { this.emit("status", error.message); this.drop(connection); });
    connection.on("close", () => this.drop(connection));
  }

  drop(connection) {
    connection.end(true);
    if (this.connection !== connection) return;
    this.connection = null;
    this.ready = false;
    this.emit("status", "not connected");
  }

  // Publish what is due, oldest first: what never was, and what the broker took but the site did not answer.
  pump(now) {
    if (this.stopped || !this.ticking) return;
    if (!this.connection) {
      if (now >= this.connectAt || now < this.connectAt - 20000) this.connect(now);
      return;
    }
    if (!this.ready) return;
    const steady = this.steady();
    for (const message of this.outbox.waiting.slice(0, WINDOW)) {
      if (message.sentAt && !message.taken) {
        if (steady - message.sentAt > PUBACK_MS) return this.drop(this.connection);
        continue;
      }
      const early = (message.notBefore || 0) - now; // by more than its slot, if the clock went back
      const due = message.sentAt ? steady >= message.retryAt : early <= 0 || early > SLOT_MS;
      if (due) this.publish(message, steady);
    }
  }

  publish(message, steady) {
    Object.assign(message, { sentAt: steady, taken: false, tries: message.tries + 1 });
    this.connection.publish(this.enrolment.topic, message.data, { qos: 1, retain: false }, (error) => {
      if (error) return;
      message.taken = true;
      message.retryAt = this.steady() + Math.min(60000, 1000 * 2 ** Math.min(message.tries, 6)) * (0.5 + Math.random() / 2);
    });
    this.emit("sent", message);
  }

  acknowledge(data) {
    const entries = decodeAck(data, this.enrolment.keys[0], this.enrolment.ackTopic);
    for (const entry of entries || []) {
      const covered = this.outbox.covered(entry);
      this.outbox.forget(covered);
      covered.forEach((each) => this.emit(entry.status === STORED ? "acknowledged" : "refused", each));
      if (entry.status === STOPPED && entry.boot === this.outbox.boot) {
        this.stopped = true;
        this.emit("stopped");
      }
    }
  }
}

module.exports = { Client, readEnrolment };
