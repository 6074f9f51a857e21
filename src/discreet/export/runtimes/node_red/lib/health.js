// Random bytes from Node's generator (OpenSSL's, of SP 800-90A), tested whenever it is asked.
// The tests are those of discreet_random.h: repetition count and adaptive proportion of SP 800-90B
// over all calls, and some that find more at once.
"use strict";
const crypto = require("node:crypto");

const BLOCK = 32, STARTUP = 64, WINDOW = 16, SPREAD = 56, MATCHES = 20, REPETITIONS = 7;
const SIZES = [256, 248, 192, 224, 256];
const NEAR = [[1, 0x7fffffff], [8, 0x00ffffff]];

function ones(word) {
  word -= (word >>> 1) & 0x55555555;
  word = (word & 0x33333333) + ((word >>> 2) & 0x33333333);
  return (Math.imul((word + (word >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24) & 255;
}

function areOff(counts, blocks) {
  return counts.some((count, i) => (2 * count - SIZES[i] * blocks) ** 2 > SPREAD * SIZES[i] * blocks);
}

class Health {
  // before: the first 8 bytes at the start before this one, in hexadecimal.
  constructor(before = "0".repeat(16)) {
    this.first = "";
    this.seen = before;
    this.last = null;
    this.blocks = this.run = this.matches = this.wanted = this.byte = 0;
    this.ones = new Uint32Array(8);
    this.zeros = new Uint32Array(8);
    this.counts = [0, 0, 0, 0, 0];
    this.broken = false;
  }

  // Whether the source may still be used after these 32 bytes.
  test(block) {
    const words = Array.from({ length: 8 }, (_, i) => block.readUInt32LE(4 * i));
    const counts = this.count(words), start = block.toString("hex", 0, 8);
    let bad = start === this.seen || pairs(words) > 1 || areOff(counts, 1);
    if (this.blocks % WINDOW === 0) [this.wanted, this.matches] = [block[0], 0];
    bad = this.repeats(block) || bad;
    this.counts = this.counts.map((each, i) => each + counts[i]);
    words.forEach((word, i) => { this.ones[i] |= word; this.zeros[i] |= ~word; });
    this.first = this.first || start;
    if ((this.blocks & (this.blocks - 1)) === 0) this.seen = start; // any cycle is found in time
    this.last = words;
    this.blocks++;
    this.broken = this.endsBadly() || bad || this.broken;
    return !this.broken;
  }

  count(words) {
    const sum = (of) => words.reduce((total, word, i) => total + of(word, i), 0);
    return [
      sum(ones),
      ...NEAR.map(([shift, mask]) => sum((word) => ones((word ^ (word >>> shift)) & mask))),
      sum((word, i) => (i ? ones(word ^ words[i - 1]) : 0)),
      this.last ? sum((word, i) => ones(word ^ this.last[i])) : 128,
    ];
  }

  repeats(block) {
    let longest = 0;
    for (const byte of block) {
      this.run = byte === this.byte ? this.run + 1 : 1;
      this.byte = byte;
      this.matches += byte === this.wanted;
      longest = Math.max(longest, this.run);
    }
    return longest >= REPETITIONS || this.matches >= MATCHES;
  }

  endsBadly() {
    let bad = false;
    if (this.blocks % WINDOW === 0) {
      bad = areOff(this.counts, WINDOW);
      this.counts = [0, 0, 0, 0, 0];
    }
    if (this.blocks % STARTUP === 0) { // every bit must have been 0 and 1
      bad = bad || this.ones.some((word, i) => (word & this.zeros[i]) >>> 0 !== 0xffffffff);
      this.ones.fill(0);
      this.zeros.fill(0);
    }
    return bad;
  }
}

function pairs(words) {
  let found = 0;
  for (let i = 0; i < 8; i++) for (let j = 0; j < i; j++) found += words[i] === words[j];
  return found;
}

class Source {
  // draw: gives so many bytes; replaced in tests only.
  constructor(draw = crypto.randomBytes) {
    this.draw = draw;
    this.health = null;
  }

  start(before) {
    this.health = new Health(before);
    for (let i = 0; i < STARTUP; i++) this.bytes(BLOCK);
  }

  bytes(size) {
    size = Math.max(size, BLOCK);
    const found = this.draw(size);
    let sound = found.length === size && this.health.test(found.subarray(0, BLOCK));
    if (sound && size >= 2 * BLOCK) sound = this.health.test(found.subarray(size - BLOCK));
    if (!sound) throw new Error("the random source does not answer, repeats itself or is biased. Nothing is released.");
    return found;
  }
}

module.exports = { BLOCK, Health, Source };
