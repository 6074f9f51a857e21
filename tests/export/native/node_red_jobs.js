// Runs jobs from stdin through the modules of the Node-RED node: JSON in, JSON out.
// node node_red_jobs.js PACKAGE vectors|health|releases|messages|starts|enrolments|refusals|lives
"use strict";
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");

const [folder, job] = process.argv.slice(2);
const lib = (name) => require(path.join(folder, "lib", name));
const input = JSON.parse(fs.readFileSync(0, "utf8"));

function vectors(found) {
  const wire = lib("wire"), { Table } = lib("table"), key = Buffer.from(found.key, "hex");
  return {
    messages: found.messages.map((each) => wire.encode({
      ...each, boot: BigInt(each.boot), symbols: Buffer.from(each.symbols, "hex"), mapping: Buffer.from(each.mapping, "hex"),
    }, key, found.topic).toString("hex")),
    acknowledgements: found.acknowledgements.map((each) =>
      wire.decodeAck(Buffer.from(each.bytes, "hex"), key, found.ack_topic).map((entry) => [String(entry.boot), entry.first, entry.length, entry.status])),
    bad: found.bad_acknowledgements.map((each) => wire.decodeAck(Buffer.from(each.bytes, "hex"), key, found.ack_topic)),
    tables: found.tables.map((each) => {
      const table = new Table(Buffer.from(each.body, "hex"));
      return { rows: table.rows, readings: each.readings.map(([reading]) => table.row(reading)), draws: each.draws.map(([row, word]) => table.pick(row, word)) };
    }),
  };
}

function health(streams) {
  const { Health } = lib("health");
  return streams.map((text) => {
    const data = Buffer.from(text, "base64"), tests = new Health();
    for (let at = 0; at < data.length; at += 32) if (!tests.test(data.subarray(at, at + 32))) return at / 32;
    return null;
  });
}

function releases(jobs) {
  const { Sensor } = lib("sensor"), { Source } = lib("health"), { Table } = lib("table");
  return jobs.map(({ body, entropy, record, history }) => {
    const place = fs.mkdtempSync(path.join(os.tmpdir(), "discreet-job-")), file = path.join(place, "ledger");
    const bytes = Buffer.from(entropy, "base64");
    let at = 0;
    const source = new Source((size) => bytes.subarray(at, (at += size)));
    if (record) fs.writeFileSync(file, Buffer.from(record, "base64"));
    const start = () => new Sensor(new Table(Buffer.from(body, "base64")), file, source, true);
    let sensor = start();
    const symbols = history.map(([rows, uptime, reboot]) => {
      const found = sensor.releaseRows(rows, uptime);
      if (reboot) sensor = start();
      return found;
    });
    const stored = fs.readFileSync(file).toString("base64");
    fs.rmSync(place, { recursive: true });
    return { symbols, stored };
  });
}

// The messages of a client for rows by round and sensor, each acknowledged at once.
function messages({ enrolment, entropy, rows }) {
  const { Client } = lib("client"), { Source } = lib("health");
  const place = fs.mkdtempSync(path.join(os.tmpdir(), "discreet-job-")), file = path.join(place, "device.enrol");
  const { epoch, interval, sensors } = JSON.parse(enrolment), bytes = Buffer.from(entropy, "base64"), found = [];
  let at = 0, now = 1000 * epoch, up = 0;
  fs.fsyncSync = () => {}; // slow, and no part of the question
  fs.writeFileSync(file, enrolment);
  const source = new Source((size) => bytes.subarray(at, (at += size)));
  const client = new Client(file, path.join(place, "state"), { clock: () => now, uptime: () => up, source });
  client.sensors.forEach(({ table }) => { table.row = (reading) => reading; }); // they are rows
  client.on("released", (message) => found.push(message.data.toString("hex")));
  rows.forEach((row, number) => {
    sensors.forEach((name, t) => client.read(name, row[t]));
    now = 1000 * (epoch + (number + 1) * interval) + 250;
    up = number + 1;
    client.follow(now);
    client.outbox.forget(client.outbox.waiting);
  });
  fs.rmSync(place, { recursive: true });
  return found;
}

// The rounds and numbers of messages of a client whose clock is set before each of its starts.
function starts({ enrolment, offsets, count, connected }) {
  const { Client } = lib("client"), { numbersOf } = lib("wire");
  const place = fs.mkdtempSync(path.join(os.tmpdir(), "discreet-job-")), file = path.join(place, "device.enrol");
  const { epoch, interval } = JSON.parse(enrolment);
  fs.writeFileSync(file, enrolment);
  let passed = 0;
  const found = offsets.map((offset) => {
    const messages = [], now = () => 1000 * (epoch + (passed + offset) * interval) + 250;
    const steady = () => 1000 * passed * interval;
    const client = new Client(file, path.join(place, "state"), { clock: now, steady });
    client.ready = connected;
    client.on("released", ({ data }) => { const { boot, seq, round } = numbersOf(data); messages.push([String(boot), seq, round]); });
    for (const end = passed + count; passed < end; passed++) client.follow(now());
    return { messages, round: passed, waiting: client.outbox.waiting.length };
  });
  fs.rmSync(place, { recursive: true });
  return found;
}

// Why each of some enrolments is refused; null if it is not.
function enrolments(texts) {
  const { readEnrolment } = lib("client"), place = fs.mkdtempSync(path.join(os.tmpdir(), "discreet-job-")), file = path.join(place, "device.enrol");
  const found = texts.map((text) => {
    fs.writeFileSync(file, text);
    try {
      readEnrolment(file);
      return null;
    } catch (error) {
      return error.message;
    }
  });
  fs.rmSync(place, { recursive: true });
  return found;
}

// What a client says to each of some enrolments, and whether it has written anything.
function refusals(texts) {
  const { Client } = lib("client"), place = fs.mkdtempSync(path.join(os.tmpdir(), "discreet-job-")), file = path.join(place, "device.enrol");
  const found = texts.map((text, i) => {
    const state = path.join(place, `state-${i}`);
    let told = null;
    fs.writeFileSync(file, text);
    try {
      new Client(file, state);
    } catch (error) {
      told = error.message;
    }
    return [told, fs.existsSync(state)];
  });
  fs.rmSync(place, { recursive: true });
  return found;
}

// What each step of some lives has led to: what waits, what was published, and what was given up, refused and stopped.
function lives({ enrolments, told }) {
  const { Client } = lib("client"), { numbersOf } = lib("wire");
  const { renameSync, rmSync } = fs, fail = () => { throw new Error("the storage fails"); };
  const row = (data) => { const { boot, seq, round } = numbersOf(data); return [Number(boot), seq, round, data.readUInt32BE(22)]; };
  fs.fsyncSync = () => {}; // slow, and no part of the question
  return told.map(({ slots, steps }) => {
    const place = fs.mkdtempSync(path.join(os.tmpdir(), "discreet-job-")), file = path.join(place, "device.enrol");
    let client, now, steady = 1000, published = [], refused = 0, before = 0;
    const line = { publish: (_topic, data, _options, taken) => { published.push(data.toString("hex")); taken(); }, end() {} };
    const acts = {
      start({ enrolment, clock }) {
        fs.writeFileSync(file, JSON.stringify(enrolments[enrolment]));
        now = clock;
        try {
          client = new Client(file, path.join(place, "state"), { clock: () => now, steady: () => steady, most: slots });
        } catch (error) {
          if (fs.renameSync !== fail) throw error;
          client = null;
          return;
        }
        Object.assign(client, { ticking: true, connect() {} });
        client.on("refused", () => { refused++; });
        before = 0;
      },
      wait({ ms, pause }) {
        for (let passed = 0; passed < ms; passed += pause) {
          now += pause;
          steady += pause;
          client.tick();
        }
      },
      set_clock({ clock }) { now = clock; },
      connect() {
        Object.assign(client, { connection: line, ready: true });
        for (const each of client.outbox.waiting) Object.assign(each, { sentAt: 0, taken: false });
      },
      disconnect() { Object.assign(client, { connection: null, ready: false }); },
      answer({ bytes }) { client.guard(() => client.acknowledge(Buffer.from(bytes, "hex"))); },
      storage({ works }) { Object.assign(fs, works ? { renameSync, rmSync } : { renameSync: fail, rmSync: fail }); },
    };
    const found = steps.map((step) => {
      [published, refused] = [[], 0];
      acts[step.do](step);
      if (client === null) return null;
      const { waiting, givenUp } = client.outbox, counted = givenUp - before;
      before = givenUp;
      return [waiting.map(({ data }) => row(data)), published, counted, refused, client.stopped];
    });
    rmSync(place, { recursive: true });
    return found;
  });
}

process.stdout.write(JSON.stringify({ vectors, health, releases, messages, starts, enrolments, refusals, lives }[job](input)));
