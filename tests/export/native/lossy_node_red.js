// Loaded into Node-RED before all else: the node notes what it writes, and loses a tenth of the answers.
// The file CLOCK, if it is there, holds the seconds by which its clock is ahead.
"use strict";
const fs = require("node:fs");
const path = require("node:path");

const lib = path.join(process.env.DISCREET_USER_DIR, "node_modules", "node-red-contrib-discreet", "lib");
if (process.argv.some((each) => each.endsWith("red.js"))) {
  const { Outbox } = require(path.join(lib, "outbox.js"));
  const { Client } = require(path.join(lib, "client.js"));
  const { append, forget } = Outbox.prototype, { acknowledge } = Client.prototype;
  const trueNow = Date.now, clock = process.env.CLOCK;
  Date.now = () => trueNow() + (fs.existsSync(clock) ? 1000 * Number(fs.readFileSync(clock, "utf8")) : 0);
  const note = (mark, data) => fs.appendFileSync(path.join(process.env.DISCREET_USER_DIR, "journal"), `${mark} ${data.toString("hex")}\n`);
  Outbox.prototype.append = function appendNoted(...given) {
    const message = append.apply(this, given);
    note("w", message.data);
    return message;
  };
  Outbox.prototype.forget = function forgetNoted(messages) {
    messages.forEach((each) => note("d", each.data));
    return forget.call(this, messages);
  };
  Client.prototype.acknowledge = function acknowledgeMost(data) {
    if (Math.random() >= 0.1) acknowledge.call(this, data);
  };
}
