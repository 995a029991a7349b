// The whole of what the dashboard's own script uses: nothing else of these packages is in the bundle.
export { parse, View } from "vega";
export { compile } from "vega-lite";
export { expressionInterpreter } from "vega-interpreter";
