// Runs a script in the WebAssembly build of MicroPython, with the files of a folder.
// node micropython.mjs ENTRY FOLDER SCRIPT
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [entry, folder, script] = process.argv.slice(2);
const { loadMicroPython } = await import(pathToFileURL(entry));
const python = await loadMicroPython({
  heapsize: 64 * 1024 * 1024,
  stdout: (line) => console.log(line),
  linebuffer: true,
});
python.FS.mkdir("/box");
for (const name of fs.readdirSync(folder)) {
  python.FS.writeFile(`/box/${name}`, fs.readFileSync(path.join(folder, name)));
}
python.runPython('import os, sys\nos.chdir("/box")\nsys.path.insert(0, "/box")');
python.runPython(fs.readFileSync(script, "utf8"));
for (const name of python.FS.readdir("/box")) {
  if (name !== "." && name !== "..") {
    fs.writeFileSync(path.join(folder, name), python.FS.readFile(`/box/${name}`));
  }
}
