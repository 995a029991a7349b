// Prints the licence of every package in the bundle; each licence requires a copy beside the code.
import { existsSync, readdirSync, readFileSync } from "node:fs";

const bundled = /^(vega|d3|delaunator|internmap|robust-predicates|topojson-client|tslib|fast-deep-equal)/;
for (const name of readdirSync("node_modules").filter((each) => bundled.test(each)).sort()) {
  const { version, license } = JSON.parse(readFileSync(`node_modules/${name}/package.json`));
  console.log(`== ${name} ${version} (${license})\n`);
  const file = ["LICENSE", "LICENSE.md", "LICENSE.txt"].map((each) => `node_modules/${name}/${each}`).find(existsSync);
  console.log(file ? readFileSync(file, "utf8") : "");
}
