// Files that are written whole or not at all, and are safe once the function returns.
"use strict";
const fs = require("node:fs");
const path = require("node:path");

function syncFolder(folder) {
  const handle = fs.openSync(folder, "r");
  try { fs.fsyncSync(handle); } finally { fs.closeSync(handle); }
}

function writeWhole(file, data) {
  const draft = `${file}.part`;
  fs.rmSync(draft, { force: true }); // left by a crash; never followed and never written over
  const handle = fs.openSync(draft, "wx", 0o600);
  try {
    fs.writeFileSync(handle, data);
    fs.fsyncSync(handle);
  } finally { fs.closeSync(handle); }
  fs.renameSync(draft, file);
  syncFolder(path.dirname(file));
}

function readIfThere(file) {
  try {
    return fs.readFileSync(file);
  } catch (error) {
    if (error.code === "ENOENT") return null;
    throw error;
  }
}

module.exports = { readIfThere, syncFolder, writeWhole };
