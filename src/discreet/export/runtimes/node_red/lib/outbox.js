// What waits to be acknowledged, a file for each message, and the numbers that are used once.
"use strict";
const fs = require("node:fs");
const path = require("node:path");
const { readIfThere, syncFolder, writeWhole } = require("./files");
const { isSealed, numbersOf } = require("./wire");

const MOST = 20000; // messages that wait; beyond that the oldest is given up

class Outbox {
  constructor(folder, enrolment, now, most = MOST) {
    this.most = most;
    this.folder = path.join(folder, "outbox");
    this.file = path.join(folder, "state.json");
    fs.mkdirSync(this.folder, { recursive: true, mode: 0o700 });
    const stored = readIfThere(this.file);
    this.state = stored === null ? { boot: "0", last: -1, client: enrolment.client } : JSON.parse(stored);
    if (this.state.client !== enrolment.client)
      throw new Error(`${folder} belongs to ${this.state.client}. Name another folder for ${enrolment.client}.`);
    this.isNew = stored === null;
    this.seq = 0;
    this.givenUp = 0;
    this.waiting = this.read(enrolment);
    for (const message of this.waiting) this.state.last = Math.max(this.state.last, message.round);
    this.boot = BigInt(Math.max(Number(this.state.boot) + 1, enrolment.boot, Math.floor(now / 1000)));
    this.keep();
  }

  keep() {
    writeWhole(this.file, JSON.stringify({ ...this.state, boot: String(this.boot) }));
  }

  // Oldest first. What the site could not authenticate is given up.
  read({ symbols, keys, topic }) {
    const found = [];
    for (const name of fs.readdirSync(this.folder).sort()) {
      const file = path.join(this.folder, name), data = name.endsWith(".msg") ? fs.readFileSync(file) : null;
      if (data !== null && isSealed(data, symbols, keys, topic)) found.push({ data, file, ...numbersOf(data), sentAt: 0, tries: 0 });
      else {
        fs.rmSync(file, { force: true });
        this.givenUp += data !== null;
      }
    }
    return found;
  }

  // Store a message; it may be sent once this returns. seal: (boot, seq) to bytes.
  append(round, last, seal) {
    const data = seal(this.boot, this.seq);
    const name = `${this.boot.toString(16).padStart(16, "0")}-${this.seq.toString(16).padStart(8, "0")}.msg`;
    const file = path.join(this.folder, name);
    writeWhole(file, data);
    const message = { data, file, boot: this.boot, seq: this.seq, round, sentAt: 0, tries: 0 };
    this.seq++;
    this.waiting.push(message);
    this.state.last = last;
    this.keep();
    if (this.waiting.length > this.most) this.giveUp([this.waiting[0]]);
    return message;
  }

  giveUp(messages) {
    this.givenUp += messages.length;
    this.forget(messages);
  }

  forget(messages) {
    if (!messages.length) return;
    const gone = new Set(messages);
    for (const each of messages) fs.rmSync(each.file, { force: true });
    syncFolder(this.folder);
    this.waiting = this.waiting.filter((each) => !gone.has(each));
  }

  covered({ boot, first, length }) {
    return this.waiting.filter((each) => each.boot === boot && each.seq >= first && each.seq - first < length);
  }

  // The clock was wrong before: what was drawn for rounds to come is given up.
  stepBack(round) {
    this.giveUp(this.waiting.filter((each) => each.round >= round));
    this.boot += 1n;
    this.seq = 0;
    this.state.last = round - 1;
    this.keep();
  }
}

module.exports = { MOST, Outbox };
