// Messages and acknowledgements, as docs/protocol.md of discreet lays them out.
"use strict";
const crypto = require("node:crypto");

const STORED = 0, REFUSED = 1, STOPPED = 2;
const FRAME = 47;

function mac(key, topic, body) {
  return crypto.createHmac("sha256", key).update(topic).update("\0").update(body).digest().subarray(0, 8);
}

// boot: a BigInt. symbols: a buffer. mapping: 8 bytes.
function encode({ boot, seq, round, spent, symbols, mapping }, key, topic) {
  const n = symbols.length, data = Buffer.alloc(FRAME + n);
  data.writeUInt16BE(0x8801, 0);
  data.writeUInt8(0x1b, 2);
  data.writeBigUInt64BE(boot, 3);
  [seq, round, spent].forEach((number, i) => {
    data.writeUInt8(0x1a, 11 + 5 * i);
    data.writeUInt32BE(number, 12 + 5 * i);
  });
  data.writeUInt8(0x59, 26);
  data.writeUInt16BE(n, 27);
  symbols.copy(data, 29);
  data.writeUInt8(0x48, 29 + n);
  mapping.copy(data, 30 + n, 0, 8);
  data.writeUInt8(0x48, 38 + n);
  mac(key, topic, data.subarray(0, 39 + n)).copy(data, 39 + n);
  return data;
}

// Whether a stored message is whole and sealed with one of the keys.
function isSealed(data, symbols, keys, topic) {
  if (data.length !== FRAME + symbols) return false;
  const seal = data.subarray(-8);
  return keys.some((key) => crypto.timingSafeEqual(mac(key, topic, data.subarray(0, -8)), seal));
}

function numbersOf(data) {
  return { boot: data.readBigUInt64BE(3), seq: data.readUInt32BE(12), round: data.readUInt32BE(17) };
}

// The entries of an acknowledgement, or null: anything may be on the topic.
function decodeAck(data, key, topic) {
  if (data.length < 14 || data.readUInt16BE(0) !== 0x8301 || data[2] !== 0x59) return null;
  const size = data.readUInt16BE(3);
  if (size % 17 || data.length !== 14 + size || data[5 + size] !== 0x48) return null;
  const body = data.subarray(0, 6 + size);
  if (!crypto.timingSafeEqual(mac(key, topic, body), data.subarray(6 + size))) return null;
  return Array.from({ length: size / 17 }, (_, i) => {
    const at = 5 + 17 * i;
    return { boot: data.readBigUInt64BE(at), first: data.readUInt32BE(at + 8), length: data.readUInt32BE(at + 12), status: data[at + 16] };
  });
}

module.exports = { REFUSED, STOPPED, STORED, decodeAck, encode, isSealed, numbersOf };
