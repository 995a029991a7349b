// The exports that charts.js of the dashboard uses; nothing else of these packages is in the bundle.
export { parse, View } from "vega";
export { compile } from "vega-lite";
export { expressionInterpreter } from "vega-interpreter";
