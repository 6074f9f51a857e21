// One sensor's encoder and thresholds, as docs/protocol.md of discreet lays them out.
"use strict";
const crypto = require("node:crypto");

const NONE = 0xffffffff, HEAD = 68;
const BINS = 0, CATEGORIES = 1, CODES = 2;
const REPEAT = { CODE: 0, PERIOD: 1, NEVER: 2 };
const SIGNED_AS = Buffer.from("discreet-bundle-1\0");
const SPKI = Buffer.from("302a300506032b6570032100", "hex"); // what comes before an Ed25519 key

function crc32(data) {
  let crc = NONE;
  for (const byte of data) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (0xedb88320 & -(crc & 1));
  }
  return ~crc >>> 0;
}

// The body of a bundle, once its signature was checked.
function verified(bundle, publicKey) {
  const body = bundle.subarray(0, -64), signature = bundle.subarray(-64);
  const key = crypto.createPublicKey({ key: Buffer.concat([SPKI, publicKey]), format: "der", type: "spki" });
  if (bundle.length <= 64 || !crypto.verify(null, Buffer.concat([SIGNED_AS, body]), key, signature))
    throw new Error("a bundle is not signed with the key of the enrolment. Enrol the device again.");
  return body;
}

// 64 bits that compare as integers like the numbers do.
function numberKey(number) {
  const bits = Buffer.alloc(8);
  bits.writeDoubleBE(number + 0);
  const key = bits.readBigUInt64BE();
  return key >> 63n ? key ^ ((1n << 64n) - 1n) : key | (1n << 63n);
}

function numberIn(text) {
  return text.trim() === "" || Number.isNaN(Number(text)) ? null : Number(text);
}

class Table {
  constructor(body) {
    const words = body.length / 4, at = (i) => body.readUInt32LE(4 * i);
    const sense = (holds) => { if (!holds) throw new Error("a bundle is damaged. Enrol the device again."); };
    sense(Number.isInteger(words) && body.length > HEAD && at(0) === 0x31435344 && at(1) === words);
    sense(at(words - 1) === crc32(body.subarray(0, -4)));
    this.mapping = body.subarray(8, 40);
    this.tag = Buffer.concat([body.subarray(8, 12), body.subarray(-4)]).toString("hex");
    [this.kind, this.missing, this.repeat] = [at(10) & 255, (at(10) >>> 8) & 1, (at(10) >>> 9) & 127];
    this.symbols = at(10) >>> 16;
    [this.plain, this.epsilon, this.budget, this.period] = [at(11), at(12), at(13), at(14)];
    sense(this.kind <= CODES && this.repeat <= REPEAT.NEVER && this.symbols >= 2 && this.symbols <= 256);
    sense(this.plain <= 100000 && this.period && !(this.kind === CODES && !this.plain));
    this.rows = this.plain + 1 + (this.kind !== CODES) + this.missing;
    this.readParts(body, at(15), at(16), sense);
  }

  readParts(body, textSize, nameSize, sense) {
    const width = this.symbols - 1, padded = (size) => 4 * Math.ceil(size / 4);
    const tops = HEAD + 4 * this.rows * width, keys = tops + padded(this.rows);
    const text = keys + (this.kind === CODES ? 0 : 8 * this.plain), name = text + padded(textSize);
    sense(name + padded(nameSize) + 4 === body.length);
    this.thresholds = Array.from({ length: this.rows }, (_, row) =>
      Array.from({ length: width }, (_, j) => body.readUInt32LE(HEAD + 4 * (row * width + j))));
    this.tops = [...body.subarray(tops, tops + this.rows)];
    this.keys = this.kind === CODES ? [] : Array.from({ length: this.plain }, (_, i) => body.readBigUInt64LE(keys + 8 * i));
    this.texts = body.toString("utf8", text, text + textSize).split("\0").slice(0, -1);
    sense(this.kind !== CATEGORIES || this.texts.length === this.plain);
    this.name = body.toString("utf8", name, name + nameSize);
  }

  // The row for a reading: its code, or the last row if no code fits.
  row(reading) {
    const unreadable = this.rows - 1;
    if (typeof reading === "string" && this.kind !== CATEGORIES) {
      reading = numberIn(reading);
      if (reading === null) return unreadable; // "unavailable" and the like
    }
    if (reading === null || reading === undefined || Number.isNaN(reading)) return unreadable - this.missing;
    if (this.kind === CATEGORIES) return this.category(reading);
    if (typeof reading === "boolean") reading = Number(reading);
    if (typeof reading !== "number") return unreadable;
    if (this.kind === CODES)
      return Number.isInteger(reading) && reading >= 0 && reading < this.plain ? reading : unreadable;
    const key = numberKey(reading);
    return this.keys.reduce((below, edge) => below + (edge < key), 0);
  }

  category(reading) {
    if (typeof reading === "number") {
      const key = numberKey(reading), found = this.keys.indexOf(key);
      return found < 0 ? this.plain : found;
    }
    if (typeof reading === "boolean") reading = reading ? "True" : "False"; // as Python writes it
    const found = this.texts.indexOf(String(reading));
    return found < 0 ? this.plain : found;
  }

  // The symbol that a word picks in a row; every threshold is compared.
  pick(row, word) {
    const count = this.thresholds[row].reduce((sum, threshold) => sum + (word >= threshold), 0);
    return Math.min(count, this.tops[row]);
  }

  // A fresh symbol for each row. Nothing is remembered and nothing counted.
  draw(rows, source) {
    const found = [];
    for (let start = 0; start < rows.length; start += 4096) {
      const some = rows.slice(start, start + 4096), words = source.bytes(4 * some.length);
      some.forEach((row, i) => found.push(this.pick(row, words.readUInt32LE(4 * i))));
    }
    return found;
  }

  // The symbol of every row under a key: words of the ChaCha20 keystream (RFC 8439, nonce 0).
  remembered(key) {
    if (this.repeat === REPEAT.NEVER) return [];
    const cipher = crypto.createCipheriv("chacha20", key, Buffer.alloc(16));
    const words = cipher.update(Buffer.alloc(4 * this.rows));
    return this.thresholds.map((_, row) => this.pick(row, words.readUInt32LE(4 * row)));
  }
}

module.exports = { NONE, REPEAT, Table, crc32, verified };
