// Vega without the transforms that the dashboard does not use (maps, forces, hierarchies, regressions): half its size.
import { transforms } from "vega-dataflow";
import * as encode from "vega-encode";
import * as common from "vega-transforms";
import { extend } from "vega-util";
import * as view from "vega-view-transforms";

extend(transforms, common, view, encode);

export { parseExpression } from "vega-expression";
export { parseSelector } from "vega-event-selector";
export { parse } from "vega-parser";
export * from "vega-time";
export * from "vega-util";
export { View } from "vega-view";
