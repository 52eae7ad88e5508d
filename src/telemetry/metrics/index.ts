// What the exporters of metrics share: the table of all metrics, and the way from events to numbers.

export { type Measuring, measure } from './measure.ts'
export type { Cell, Sink } from './sink.ts'
export { METRICS, type Metric } from './table.ts'
