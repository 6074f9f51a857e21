// Node-RED: readings come in, symbols go to the site, and readings go nowhere.
"use strict";
const path = require("node:path");
const { Client } = require("./lib/client");

module.exports = function register(RED) {
  function DiscreetNode(config) {
    RED.nodes.createNode(this, config);
    const node = this, counts = { stored: 0, refused: 0 };
    const inUserDir = (file) => path.resolve(RED.settings.userDir || ".", file);
    let client;
    try {
      const state = config.state || `${path.basename(config.enrolment, ".enrol")}.discreet`;
      client = new Client(inUserDir(config.enrolment), inUserDir(state), { maxAge: Number(config.maxAge) || 0 });
    } catch (error) {
      node.error(error.message);
      node.status({ fill: "red", shape: "ring", text: "cannot start" });
      return;
    }
    const show = (fill, text) => node.status({ fill, shape: "dot", text });
    const left = () => (client.left === null ? "" : `, ${(100 * client.left).toFixed(1)} % of the budget left`);
    client.on("status", (text) => show(text === "connected" ? "green" : "yellow", text));
    client.on("problem", (text) => { node.warn(text); show("red", text); });
    client.on("acknowledged", (message) => {
      counts.stored++;
      show("green", `${counts.stored} stored${left()}`);
      node.send({ topic: "stored", payload: { round: message.round, left: client.left } });
    });
    client.on("refused", (message) => {
      if (!counts.refused++) node.warn(`the site refused the message for round ${message.round}`);
    });
    client.on("stopped", () => {
      node.error("another device uses the same enrolment. Nothing is sent any more.");
      show("red", "another device has this enrolment");
    });
    // The topic names the sensor; where there is one only, it may be left out.
    node.on("input", (msg, send, done) => {
      try {
        const sensors = client.enrolment.sensors;
        client.read(sensors.length === 1 && !sensors.includes(msg.topic) ? sensors[0] : msg.topic, msg.payload);
        done();
      } catch (error) {
        done(error);
      }
    });
    node.on("close", (done) => { client.stop().then(() => done(), done); });
    client.start();
  }
  RED.nodes.registerType("discreet", DiscreetNode);
};
